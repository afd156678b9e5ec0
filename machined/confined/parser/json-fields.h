// Reads fields of JSON objects from outside: a value of the wrong type counts as missing.
#pragma once

#include <capnp/compat/json.h>
#include <capnp/message.h>

namespace talos::parse {

using Json = capnp::json::Value::Reader;

// InvalidArgument saying what is wrong with it.
kj::Own<capnp::MallocMessageBuilder> parseJson(kj::ArrayPtr<const char> text);

// The field of an object; none in anything else.
kj::Maybe<Json> fieldOf(Json value, kj::StringPtr name);
// Empty when there is none, or it is no string.
kj::String stringOf(Json value, kj::StringPtr name);

}  // namespace talos::parse
