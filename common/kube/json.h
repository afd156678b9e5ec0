// Kubernetes' objects as JSON values: read from foreign bytes, asked for fields, written as JSON
// and as YAML.
//
// Reading is bounded (levels, members of an object, and the caller bounds the bytes) and ends in a
// value or in InvalidArgument. Asking never throws: what is absent, or of another type than was
// asked for, is as if it were not there. Keys keep their order, so equal values give equal bytes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <nlohmann/json.hpp>

namespace talos::kube {

using Json = nlohmann::ordered_json;
using JsonPath = std::initializer_list<kj::StringPtr>;

constexpr unsigned kMostJsonDepth = 200, kMostJsonMembers = 5000;

// `what` is for the message: "the answer of the API server".
Json readJson(kj::ArrayPtr<const char> text, kj::StringPtr what);
// One line. Bytes that are no UTF-8 are replaced.
kj::String writeJson(const Json& value);

// The value at this path of keys.
kj::Maybe<const Json&> find(const Json& value, JsonPath path);
// Empty: absent, or no text.
kj::StringPtr textAt(const Json& value, JsonPath path);
// Absent or no list: none.
kj::Vector<const Json*> itemsAt(const Json& value, JsonPath path);
bool flagAt(const Json& value, JsonPath path);
int64_t numberAt(const Json& value, JsonPath path, int64_t otherwise = 0);

// Overwrites every text in it: it may be a secret.
void wipe(Json& value);

// "kube-system/coredns", or "master-1" of what has no namespace.
kj::String nameOf(const Json& object);

inline kj::StringPtr toPtr(const std::string& text) {
  return {text.data(), text.size()};
}

}  // namespace talos::kube
