// Reads YAML into a message and writes it again, for tests.
#pragma once

#include <capnp/message.h>

#include "common/yaml/yaml-codec.h"

namespace talos::codec {

template <typename T>
struct Read {
  capnp::MallocMessageBuilder message;
  Problems problems;
  Places places;
  typename T::Builder value;
  bool good;
  explicit Read(kj::StringPtr text, ReadOptions options = {})
      : value(message.initRoot<T>()), good(readYaml(text, value, problems, options, &places)) {}
  kj::String all() const { return render(problems); }
};

template <typename T>
kj::String yaml(T&& reader, WriteOptions options = {}) {
  return writeYaml(reader, options);
}

}  // namespace talos::codec
