"""Where torchrun's agents meet before a run, and agree after it on how it ended: a store that host
0 opens.

meet -> Rendezvous -> the agents run -> Rendezvous.agree

One agent alone meets itself, at a free port of the loopback interface. What we write into the store
is JSON of declared types. torchrun's agents write pickles beside it, so anyone who reaches the port
of several hosts can run code on them.
"""

import errno
import hashlib
import ipaddress
import json
import multiprocessing
import os
import re
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Annotated, Any, Final

import psutil
from pydantic import IPvAnyAddress, PlainSerializer, PlainValidator, TypeAdapter, ValidationError
from torch.distributed import DistError, DistNetworkError, TCPStore  # type: ignore[attr-defined]

from gpu_report.errors import GpuReportError, MachineError
from gpu_report.measure.hosts import INDEX, RENDEZVOUS, Hosts
from gpu_report.measure.run import Run, Stopped
from gpu_report.records.provenance import code_digest

PATIENCE_S: Final = 120.0
"""Hosts are started together: one that has not come by then was not started, or does not reach the
others.
"""
_ANSWER_S: Final = 10.0
_ENDING_S: Final = 12.0
"""When the ranks of one host have ended, those of the others are ended within a few seconds."""
_POLL_S: Final = 1.0


class Weight(IntEnum):
    """How much the end of one host's ranks explains of the end of all."""

    FINISHED = 0
    LOST_OTHERS = 1
    DID_NOT_ANSWER = 2
    CAUSE = 3


_Line = Annotated[
    GpuReportError,
    PlainValidator(lambda line: GpuReportError(TypeAdapter(str).validate_python(line))),
    PlainSerializer(str),
]
"""Another host's error is known by its line."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How the ranks of one host ended, without a message where they have finished: results stay
    where they are.
    """

    weight: Weight
    message: Stopped | _Line | None = None


@dataclass(frozen=True, kw_only=True)
class _Came:
    """What a host says when it comes: what is to be the same on all, and the address at which it
    reached host 0.
    """

    asked: dict[str, str]
    reached: IPvAnyAddress


_VERDICT: Final = TypeAdapter(Verdict)
_CAME: Final = TypeAdapter(_Came)


class NotMetError(GpuReportError):
    """The hosts have not found each other; the message is the run's reason."""


class Rendezvous:
    """The agents of one run, met; each has a store in common with the others, and an address at
    which they reach it.
    """

    def __init__(self, run: Run, store: TCPStore, address: str) -> None:
        self._hosts, self._store, self.address = run.hosts, store, address
        self._ended, self._failed = f"{_run_id(run)}/ended", f"{_run_id(run)}/failed"
        self.run_id = _run_id(run)
        self.is_host = self._hosts.index == 0
        self.endpoint = f"{store.host if self.is_host else self._hosts.address}:{store.port}"

    @property
    def poll_s(self) -> float | None:
        """How often to ask for failures of other hosts; None where there are none."""
        return _POLL_S if self._hosts.count > 1 else None

    def say_failed(self) -> None:
        """Let the other hosts end their ranks."""
        with suppress(DistError):
            self._store.set(self._failed, "")

    def has_failed(self) -> bool:
        """Whether a host has said so, or host 0 is gone."""
        try:
            return self._store.check([self._failed])
        except DistError:
            return True

    def agree(self, own: Verdict) -> Verdict:
        """How the run ended, the same for every host: with what explains most, by the first host
        that says it.
        """
        if self._hosts.count == 1:
            return own
        verdicts: list[Verdict] = []
        gone: list[int] = []
        try:
            self._store.set(f"{self._ended}{self._hosts.index}", _VERDICT.dump_json(own).decode())
        except DistError:
            gone.append(0)
        else:
            deadline_s = time.monotonic() + _ENDING_S
            for host in range(self._hosts.count):
                try:
                    self._store.wait([f"{self._ended}{host}"], _until(deadline_s))
                    verdicts.append(
                        _read(_VERDICT, self._store.get(f"{self._ended}{host}"), host, self._hosts)
                    )
                except MachineError as error:
                    verdicts.append(Verdict(weight=Weight.CAUSE, message=error))
                except DistError as error:
                    # Without a connection the store is gone, and with it host 0.
                    gone.append(0 if isinstance(error, DistNetworkError) else host)
            if not gone:
                _wait_for_readers(self._store, self._ended, self._hosts)
        return max([*verdicts, *map(_gone, gone)], key=lambda verdict: verdict.weight)


def _read(form: TypeAdapter[Any], text: bytes, host: int, hosts: Hosts) -> Any:
    """What a host has written, of the form's type.

    Raises:
        MachineError: it is something else; nothing of it was carried out.
    """
    try:
        return form.validate_json(text)
    except ValidationError as error:
        raise MachineError(
            f"what host {host} is to have written at {hosts.endpoint} has another form "
            f"({error.errors()[0]['msg']}); "
            "run the same version on every host, and let no others reach this port"
        ) from error


def _gone(host: int) -> Verdict:
    """The verdict on a host that is gone, whose end says nothing about the training."""
    reason = f"host {host} is gone: it ended without saying why"
    stopped = Stopped(
        status="failed", reason=reason, lost_others=True, interrupted_by="its host's end"
    )
    return Verdict(weight=Weight.DID_NOT_ANSWER, message=stopped)


def meet(run: Run) -> Rendezvous:
    """Wait for the agents of all hosts; blocks for at most PATIENCE_S, or the run's own patience if
    that is shorter.

    Afterwards gloo uses the network that leads from one host to the other.

    Raises:
        NotMetError: they did not all come, or the port is in use.
        MachineError: they have not come to measure the same.
    """
    patience_s = min(run.patience_s, PATIENCE_S)
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            store, own, reached = _open_store(run)
            came = _come(run, store, reached, deadline_s, patience_s)
            break
        except (OSError, DistNetworkError) as error:
            # Host 0 may come later, or the store of the run before, which is about to end, may have
            # answered.
            if time.monotonic() > deadline_s:
                raise NotMetError(
                    f"no answer from host 0 at {run.hosts.endpoint} "
                    f"({str(error).partition('. ')[0]}); start the same command there with "
                    f"{INDEX}=0, and check the name, the port and the firewall"
                ) from error
            time.sleep(0.1)
    for host, theirs in enumerate(came):
        for name, value in _asked(run).items():
            if theirs.asked.get(name) != value:
                raise MachineError(
                    f"host {host} and host {run.hosts.index} differ in their {name}: "
                    f"{theirs.asked.get(name)} and {value}; run the same version with the same "
                    "configuration on machines of the same kind"
                )
    # How host 0 is reached is known to those that reach it, whatever its own name means there.
    address = own if run.hosts.index else str(came[-1].reached)
    network = _network_of(address)
    if run.hosts.count > 1 and network:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", network)
    return Rendezvous(
        run, store, "localhost" if ipaddress.ip_address(address).is_loopback else address
    )


def _run_id(run: Run) -> str:
    return f"{run.measurement.variant.slug}.{run.index}"


def _asked(run: Run) -> dict[str, str]:
    """What is to be the same on every host."""
    measurement = json.dumps(run.measurement.as_dict(), sort_keys=True, default=str)
    return {
        "machine": run.machine,
        "measuring code": code_digest()[:12],
        "study (as a digest)": hashlib.sha256(measurement.encode()).hexdigest()[:12],
    }


def _open_store(run: Run) -> tuple[TCPStore, str, str]:
    """Host 0's store, this host's address towards it, and the one at which it was reached.

    Raises:
        NotMetError: the port is in use, or what answers is no store.
        OSError: nobody answers there.
        DistNetworkError: the store ended meanwhile.
    """
    hosts, port = run.hosts, run.hosts.port
    if hosts.index == 0:
        listener = _listen(run)
        address, port = listener.getsockname()[:2]
        if ipaddress.ip_address(address).is_unspecified:
            address = "localhost"
        store = TCPStore(
            address,
            port,
            is_master=True,
            multi_tenant=True,  # torchrun's agent finds it by its port, and opens none of its own
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        return store, "127.0.0.1", "127.0.0.1"
    with socket.create_connection((hosts.address, port), timeout=_ANSWER_S) as probe:
        own, reached = probe.getsockname()[0], probe.getpeername()[0]
    timeout = timedelta(seconds=_ANSWER_S)
    connect = partial(TCPStore, multi_tenant=True, wait_for_workers=False, timeout=timeout)
    # A server that is no store and does not answer would be waited for without an end.
    with ThreadPool(1) as pool:
        opening = pool.apply_async(connect, (hosts.address, port))
        try:
            return opening.get(min(_ANSWER_S, run.patience_s)), own, reached
        except multiprocessing.TimeoutError as error:
            raise NotMetError(
                f"the server at {hosts.endpoint} is not a torchrun store; choose another port"
            ) from error


def _listen(run: Run) -> socket.socket:
    """Host 0's port at the address by which it was named: the loopback one only where that was
    named.

    Where that name leads to no address of this host, as behind a Kubernetes service, the port is
    open on all of them.

    Raises:
        NotMetError: the port is in use, or may not be opened.
    """
    name, port = run.hosts.address, run.hosts.port
    has_both = socket.has_dualstack_ipv6()
    places: list[tuple[socket.AddressFamily, Any]] = []
    with suppress(socket.gaierror):
        # A host's own name may lead to a loopback address on the host itself, and to another one
        # elsewhere.
        places = [
            (family, place)
            for family, *_, place in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            if re.search("localhost|loopback", name)
            or (
                name == place[0]
                if ipaddress.ip_address(place[0]).is_loopback
                else _network_of(str(place[0]))
            )
        ]
    if not places:
        places = [(socket.AF_INET6 if has_both else socket.AF_INET, ("", port))]
        if run.index == 0:
            print(
                f"{name} leads to no address of this host's interfaces, so port {port} is open on "
                "all of them; let only trusted hosts reach it",
                file=sys.stderr,
                flush=True,
            )
    family, place = min(places)  # IPv4, if there is one: not every host has a route for the other
    try:
        return socket.create_server(
            place, family=family, dualstack_ipv6=has_both and family == socket.AF_INET6
        )
    except OSError as error:
        why = (
            "is in use"
            if error.errno == errno.EADDRINUSE
            else f"cannot be opened ({error.strerror})"
        )
        raise NotMetError(
            f"port {port} of this host {why}; choose another one in {RENDEZVOUS}"
        ) from error


def _come(
    run: Run, store: TCPStore, reached: str, deadline_s: float, patience_s: float
) -> list[_Came]:
    """Say that this host is here, and return what every host says, in their order."""
    hosts, keys = run.hosts, [f"{_run_id(run)}/came{host}" for host in range(run.hosts.count)]
    store.set(
        keys[hosts.index],
        _CAME.dump_json(_Came(asked=_asked(run), reached=ipaddress.ip_address(reached))).decode(),
    )
    try:
        store.wait(keys, _until(deadline_s))
    except DistNetworkError:
        raise
    except DistError as error:
        absent = [host for host, key in enumerate(keys) if not store.check([key])]
        raise NotMetError(
            f"only {hosts.count - len(absent)} of {hosts.count} hosts came to {hosts.endpoint} "
            f"within {patience_s:.0f} s, without host {', '.join(map(str, absent))}; start the "
            f"same command there with its {INDEX}, and check that it reaches this port"
        ) from error
    came = [store.get(key) for key in keys]
    _wait_for_readers(store, f"{_run_id(run)}/came", hosts)
    return [_read(_CAME, text, host, hosts) for host, text in enumerate(came)]


def _wait_for_readers(store: TCPStore, prefix: str, hosts: Hosts) -> None:
    """Let host 0 go last, since the store ends with it."""
    with suppress(DistError):
        if store.add(f"{prefix}/read", 1) == hosts.count:
            store.set(f"{prefix}/all_read", "")
        if hosts.index == 0:
            store.wait([f"{prefix}/all_read"], timedelta(seconds=_ANSWER_S))


def _until(moment_s: float) -> timedelta:
    return timedelta(seconds=max(moment_s - time.monotonic(), 0.1))


def _network_of(address: str) -> str:
    """The name of the network interface that has this address; empty where none has it."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == address for each in addresses):
            return name
    return ""
