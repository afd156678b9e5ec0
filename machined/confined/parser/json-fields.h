// Reads fields of JSON objects from outside: a value of the wrong type counts as missing.
#pragma once

#include <capnp/compat/json.h>
#include <capnp/message.h>

namespace talos::parse {

using Json = capnp::json::Value::Reader;

// Throws InvalidArgument with the problem.
kj::Own<capnp::MallocMessageBuilder> parseJson(kj::ArrayPtr<const char> text);

// Returns the field of an object; nullptr for any other value.
kj::Maybe<Json> fieldOf(Json value, kj::StringPtr name);
// Returns the string; empty if the field is missing, or not a string.
kj::String stringOf(Json value, kj::StringPtr name);

}  // namespace talos::parse
