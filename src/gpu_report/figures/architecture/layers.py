"""Parameters of the layers that the networks are made of, and the stages that a picture shows."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of a picture: what computes, what comes out of it, and its parameters."""

    name: str
    """What computes, in a few words; lines are separated by line breaks."""
    channels: int
    """Channels of a picture, or numbers for each character."""
    length: int = 1
    """Width and height of a picture in pixels, characters of a text; 1 where one vector comes out."""
    is_picture: bool = False
    parameters: int = 0

    @property
    def output(self) -> str:
        """The size of what comes out: `64 × 32²` for a picture, `64 × 256` for a text, `10` for a vector."""
        if self.length == 1:
            return str(self.channels)
        if self.is_picture:
            return f"{self.channels} \N{MULTIPLICATION SIGN} {self.length}\N{SUPERSCRIPT TWO}"
        return f"{self.length} \N{MULTIPLICATION SIGN} {self.channels}"


def convolution(channels_in: int, channels_out: int, kernel: int, *, bias: bool) -> int:
    """Parameters of a convolution with a square kernel, transposed or not."""
    return channels_in * channels_out * kernel**2 + (channels_out if bias else 0)


def normalisation(channels: int) -> int:
    """Those of a batch or layer normalisation: a factor and a shift for each channel."""
    return 2 * channels


def linear(inputs: int, outputs: int) -> int:
    """Those of a linear layer with bias."""
    return inputs * outputs + outputs


def recurrent(inputs: int, hidden: int) -> int:
    """Those of an LSTM layer in both directions, with four gates each and two biases a gate, as cuDNN has them."""
    return 2 * 4 * (inputs * hidden + hidden * hidden + 2 * hidden)
