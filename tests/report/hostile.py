"""Names that try to break a report, the same on every run: of TeX, shell, Jinja, Unicode and the
longest kernels.
"""

import random
import re
import unicodedata
from functools import cache
from typing import Final

SECRET: Final = "opensesame"
"""Stands in the file `secret.tex` beside the document; no name may bring it into the text."""

FORBIDDEN_FILE: Final = "executed"
"""What the names try to write; nobody may find it."""

_COMMANDS: Final = (
    *re.split(
        r" § |\n",
        r"""
\input{secret} § \input{secret.tex} § \include{secret} § \@@input secret § \write18{touch @FILE@}
\immediate\write18{touch @FILE@} § \immediate\openout9=@FILE@.tex
\directlua{os.execute('touch @FILE@')}
\csname input\endcsname secret § \end{document} § \begin{verbatim} § \verb|x| § \catcode`\%=12
\par § \\
\& § \\[2pt] § ^^5cinput{secret} § ^^M § ^^41 § \def\gpurep#1{} § \endinput § \loop\repeat
\expandafter
\relax § \VAR{7*7191} § \BLOCK{if true} § \BLOCK{endif} § \#{comment} § %% § %% comment
{{ 7*7191 }}
{% raw %} § {# x #} § ${7*7191} § #{7*7191} § <%= 7*7191 %> § {{ self.__init__ }} § $(touch @FILE@)
`touch @FILE@` § ; touch @FILE@; § | tee @FILE@ § && touch @FILE@ § > @FILE@ § $HOME § ${PATH}
!! § ~root
* § ../../etc/passwd § C:\Users\name\x.py § /tmp/a b/c'd"e.json § -rf § --help
=cmd|' /C calc'!A0 § @SUM(1)
+1 § -1 § a,b § a"b § a;b § NULL § nan § inf § 1e400 § None § <b>x</b> § &amp; § ]]> § ?` § !`
$x$ § $$ § $
a_b § a^b § #1 § ## § & § % § ~ § _ § ^ § { § } § }{ § \ § | § < § > § " § ` § ' § '' § '''
,, § -- § ---
---- § << § >> § [ § ] § [x] § [1]* § ff § fi § ffi § fl § ij § = § @ § / § // § : § :: § ; § ?
! § ...
U+0041 § \unhbox\voidb@x § table-format=3 § 1.2(3)
""".strip().replace("@FILE@", FORBIDDEN_FILE),
    ),
    "\\input secret ",
    "a\tb",
    "a\r\nb",
)
"""The first from a text, an item between two of the signs that part them."""
_LETTERS: Final = (
    "äöüßÄÖÜéèêëñçãåøæœłŁđĐðÞþıİşğčřžőűąęķļņțŋĳŉſẞ",
    "αβγδεζηθικλμνξοπρσςτυφχψωΑΒΓΔΩϑϕ",
    "абвгдежщъыьэюяЁЖ",
    "אבגדה\u05b0שלום",
    "ابتثجحخ\u064bسلام٣٤",
    "हिन्दीकखग",
    "ไทยกขค",
    "中文字漢日本語カナひらがな한국어조선",
    "🙂🚀🔥👩\u200d💻🇩🇪👍🏽❤\ufe0f",
    "e\u0301o\u0308a\u0323\u0302z\u0335k\u0327q\u0303\u0360",
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2069\ufeff\u00ad\ufffc\ufffd",
    "\x00\x01\x02\x07\x08\x0b\x0c\x1b\x1c\x1d\x1e\x1f\x7f\x80\x85\x9f",
    "\u00a0\u2002\u2003\u2009\u202f\u2028\u2029\u3000",
    "–—‘’“”‚„…•·°©®™§¶€£¥¢¡¿²³¹½¼×÷±−≤≥≈≠∞→←⇒√∑∫∂µªº«»‹›†‡‰′″",
    "𝐀𝔘𝟘\U000e0041\U0010ffff\ue000\uf8ff\U0001f1e6ﬁﬂﷺ½Ⅷ①",
)
_WORDS: Final = (
    "aten::",
    "convolution",
    "Kernel",
    "U-Net",
    "step",
    "data",
    "fused",
    "sm80_xmma",
    "NVIDIA H100 80GB",
    "Xeon(R)",
)
_KERNELS: Final = (
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>("
    "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4::Params)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<4>, at::native::(anonymous "
    "namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>, float const*, "
    "double, double, double, double, double, bool, float*, "
    "float*>(at::native::TensorListMetadata<4>, float)",
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, "
    "(cudnnKernelDataType_t)0>(cudnn::ops::nchw2nhwc_params_t<float>, __half const*, __half*)",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, "
    "float, false, true, true, false, 7, false, cublasGemvParamsEx<int, "
    "cublasGemvTensorStridedBatched<float const>>>(cublasGemvParamsEx<int>)",
)
_LONGEST: Final = 300


@cache
def hostile_names(count: int = 2000) -> tuple[str, ...]:
    """So many names, none twice and none empty: every command and letter alone, then mixtures, then
    long kernels.
    """
    dice = random.Random(20)
    pieces = [*_COMMANDS, *(letter for letters in _LETTERS for letter in letters)]
    names = dict.fromkeys([*(f"{piece}x" for piece in pieces), *(f"x{piece}" for piece in pieces)])
    while len(names) < count:
        if dice.random() < 0.15:
            kernel = list(dice.choice(_KERNELS) * 3)
            for _ in range(dice.randrange(4)):
                kernel[dice.randrange(_LONGEST)] = dice.choice(pieces)
            name = "".join(kernel)[:_LONGEST]
        else:
            kinds = (_WORDS, _COMMANDS, dice.choice(_LETTERS))
            chosen = [dice.choice(dice.choice(kinds)) for _ in range(dice.randint(2, 6))]
            name = dice.choice(("", "", " ", "_")).join(chosen)
        names[name] = None
    return tuple(names)[:count]


def as_read(text: str) -> str:
    """What is left to compare of a text that was printed and read back.

    Not compared are white space, the look of quotation marks, and how Unicode writes a letter;
    `U+XXXX` stands for the character that it names.
    """
    composed = unicodedata.normalize(
        "NFC", _DOTLESS.sub(lambda found: {"ı": "i", "ȷ": "j"}[found[0]], text)
    )
    shown = _SPELT_OUT.sub(lambda found: chr(int(found[1], 16)), composed)
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFC", shown))
    return "".join(
        _ALIKE.get(character, character) for character in plain if not character.isspace()
    )


_ALIKE: Final = {"’": "'", "‘": "'", "∆": "Δ"}
_DOTLESS: Final = re.compile("[ıȷ](?=[\u0300-\u036f])")
_SPELT_OUT: Final = re.compile(r"U\+(10[0-9A-F]{4}|[0-9A-F]{4,5})(?![0-9A-Fa-f])")
