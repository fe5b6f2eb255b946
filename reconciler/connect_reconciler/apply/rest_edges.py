"""The edges of an apply over REST alone: there is no lease, and the ledger lies in the configs."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.apply.edges import Edges, Settings
from connect_reconciler.cluster.http import HttpCluster
from connect_reconciler.cluster.rest_alone import KeyedCluster, RestKeeper, RestReadBack
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.ledger.config_key import ConfigKeyLedger, NoLease
from connect_reconciler.observe.rest import ledger_over_rest
from connect_reconciler.plan.secrets.masked import unmasked
from connect_specs.desired import Desired


def edges_over_rest(
    client: RestClient, desired: Desired, settings: Settings, fingerprint_key: bytes | None
) -> Edges:
    """The edges; the ledger is as the configs hold it now. The caller closes the client."""

    def unmask(name: str, config: Mapping[str, str]) -> Mapping[str, str]:
        spec, owned = desired.connectors.get(name), ledger.state.connectors.get(name)
        wanted = {} if spec is None else spec.config
        recorded = {} if owned is None else owned.config
        return unmasked(name, config, wanted, recorded, fingerprint_key)

    asks = HttpCluster(client)
    read_back = RestReadBack(asks, client, unmask)
    state, kept = ledger_over_rest(client, fingerprint_key)
    ledger = ConfigKeyLedger(state, RestKeeper(asks, read_back), kept)
    cluster = KeyedCluster(client, ledger.entry, read_back)
    return Edges(cluster, ledger, NoLease(), read_back, settings)
