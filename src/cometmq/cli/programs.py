"""`cometmq nameserver`, `broker` and `proxy`, which run the servers."""

from typing import Annotated

import typer

from cometmq.cli.options import Version

Conf = Annotated[
    str | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="Configuration file in RocketMQ's format."
    ),
]
Nameservers = Annotated[
    str | None,
    typer.Option(
        "--nameserver",
        "-n",
        metavar="HOST:PORT",
        help="Nameserver addresses, like the setting namesrvAddr.",
    ),
]
PrintsSettings = Annotated[
    bool, typer.Option("-p", "--print", help="Print all effective settings and exit.")
]


def nameserver(
    context: typer.Context,
    *,
    conf: Conf = None,
    prints_settings: PrintsSettings = False,
    _version: Version = False,
) -> None:
    """Run a nameserver.

    Each setting that is no secret is also a flag: --listen-port 0 means listenPort=0.
    """
    from cometmq.nameserver.program import run_nameserver

    raise typer.Exit(run_nameserver(conf, context.args, prints_settings=prints_settings))


def broker(
    context: typer.Context,
    *,
    conf: Conf = None,
    nameservers: Nameservers = None,
    prints_settings: PrintsSettings = False,
    _version: Version = False,
) -> None:
    """Run a broker.

    Each setting that is no secret is also a flag: --listen-port 0 means listenPort=0.
    """
    from cometmq.broker.__main__ import main

    arguments = ["-c", conf] if conf else []
    arguments += ["-n", nameservers] if nameservers else []
    arguments += ["-p"] if prints_settings else []
    raise typer.Exit(main([*arguments, *context.args]))


def proxy(
    context: typer.Context,
    *,
    conf: Annotated[
        str | None,
        typer.Option(
            "-c", "--config", metavar="FILE", help="RocketMQ's rmq-proxy.json, or one like it."
        ),
    ] = None,
    nameservers: Nameservers = None,
    prints_settings: PrintsSettings = False,
    _version: Version = False,
) -> None:
    """Run a proxy for gRPC clients in front of a cluster.

    Each setting that is no secret is also a flag: --grpc-server-port 0 means grpcServerPort=0.
    """
    from cometmq.proxy.cluster.program import run_proxy

    arguments = ["--namesrv-addr", nameservers] if nameservers else []
    arguments += context.args
    raise typer.Exit(run_proxy(conf, arguments, prints_settings=prints_settings))
