// A Cap'n Proto message as a later release writes it: its struct has fields that this release does
// not know, one more word and one more pointer, both set.
#pragma once

#include <capnp/any.h>
#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <string.h>

namespace talos {

constexpr kj::StringPtr kLaterField = "a field of a later release"_kj;

template <typename T, typename Fill>
kj::Array<char> laterMessage(Fill&& fill) {
  auto known = capnp::Schema::from<T>().getProto().getStruct();
  auto words = static_cast<uint16_t>(known.getDataWordCount() + 1);
  auto pointers = static_cast<uint16_t>(known.getPointerCount() + 1);
  capnp::MallocMessageBuilder message;
  auto all = message.getRoot<capnp::AnyPointer>().initAsAnyStruct(words, pointers);
  fill(all.template as<T>());
  all.getDataSection().back() = 0xff;
  all.getPointerSection()[pointers - 1].template setAs<capnp::Text>(kLaterField);
  return kj::heapArray<char>(capnp::messageToFlatArray(message).asBytes().asChars());
}

}  // namespace talos
