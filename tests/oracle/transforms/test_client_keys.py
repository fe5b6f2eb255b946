"""The properties of Kafka's clients, as their own classes define them."""

import pytest

from connect_runtime.settings.connector_clients import ADMIN, CONSUMER, PRODUCER
from connect_runtime.validation.connector_keys import client_keys
from connect_specs.client_properties import CLIENT_PROPERTIES
from support.connect_classes import ConnectClasses

pytestmark = pytest.mark.oracle

CLIENTS = {
    ADMIN: "admin.AdminClientConfig",
    CONSUMER: "consumer.ConsumerConfig",
    PRODUCER: "producer.ProducerConfig",
}


@pytest.mark.parametrize("prefix", CLIENTS)
def test_properties_of_clients(connect_classes: ConnectClasses, prefix: str) -> None:
    theirs = connect_classes.ask({"describe": f"org.apache.kafka.clients.{CLIENTS[prefix]}"})
    kept = ("name", "type", "required", "default", "importance")
    defined = {each["name"]: tuple(each[key] for key in kept) for each in theirs["options"]}
    found = {
        key.name: (key.name, key.type.value, key.required, key.default_text, key.importance.value)
        for key in client_keys(prefix).values()
    }
    assert found == defined
    assert defined.keys() <= CLIENT_PROPERTIES
