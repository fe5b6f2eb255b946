"""Describes the REST API as an OpenAPI document, made from the routes that are served.

Every route needs an entry in openapi.yaml. Connect documents parts of its JSON nowhere: the schemas
follow the answers of its workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from connect_runtime.rest.exchange import JSON
from connect_runtime.rest.wire import Json

PATH: Final = "/openapi.json"
_FILE: Final = Path(__file__).with_name("openapi.yaml")
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@cache
def description() -> Mapping[str, Any]:
    """Returns the content of openapi.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content: Mapping[str, Any] = yaml.load(_FILE.read_text(), loader)
    return content


def document(routes: Iterable[tuple[str, str]], version: str) -> Json:
    """Returns the OpenAPI document of these routes (method and path). Raises KeyError for a route
    that is not described."""
    paths: dict[str, Json] = {}
    for method, path in routes:
        operation = description()["paths"][path][method]
        paths.setdefault(path, {})[method.lower()] = _operation(path, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect REST API",
            "version": version,
            "description": "Apache Kafka Connect's REST API, and what this runtime adds to it.",
        },
        "security": [{}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": description()["schemas"],
            "responses": _errors(),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _operation(path: str, operation: Mapping[str, Any]) -> Json:
    result: Json = {"summary": operation["summary"]}
    of_path = {name: description()["parameters"][name] for name in _PARAMETER.findall(path)}
    parameters = [
        {"name": name, "in": "path", "required": True, **text} for name, text in of_path.items()
    ] + [{"name": name, "in": "query", **text} for name, text in operation.get("query", {}).items()]
    if parameters:
        result["parameters"] = parameters
    if "body" in operation:
        result["requestBody"] = {"required": True, "content": _content(operation["body"])}
    result["responses"] = _responses(operation)
    return result


def _responses(operation: Mapping[str, Any]) -> Json:
    responses: dict[str, Any] = {}
    for status, schema in operation["answers"].items():
        responses[str(status)] = {"description": operation["summary"]}
        if schema is not None:
            responses[str(status)]["content"] = _content(schema, operation.get("text", JSON))
    for code in _errors():
        responses.setdefault(code, {"$ref": f"#/components/responses/{code}"})
    return dict(sorted(responses.items()))


def _errors() -> Json:
    """Returns the answers of any request: of its path, headers, login, origin and size."""
    errors: dict[str, Any] = {
        code: {"description": text, "content": _content("Error")}
        for code, text in description()["errors"].items()
    }
    # for paths and content types that are not understood
    errors["400"]["content"]["text/html"] = {"schema": {"type": "string"}}
    bare = description()["errors_without_content_type"]
    return errors | {code: {"description": text} for code, text in bare.items()}


def _content(schema: str, content_type: str = JSON) -> Json:
    return {content_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
