// A request, for methods that read it by hand: each question goes through the bytes once more, so
// nothing is kept of a message that has millions of fields.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "apid/edge/wire.h"

namespace talos::edge {

class RequestFields {
 public:
  explicit RequestFields(Bytes message) : message(message) {}

  // The last one of the number; zero and empty when there is none. InvalidArgument when the request
  // is no message, or the text not UTF-8.
  uint64_t number(uint32_t field) const;
  bool flag(uint32_t field) const { return number(field) != 0; }
  kj::String text(uint32_t field) const;
  Bytes bytes(uint32_t field) const;
  RequestFields in(uint32_t field) const { return RequestFields(bytes(field)); }
  // Of bytes, even if there are none in it.
  bool has(uint32_t field) const;
  // Each one, in their order. InvalidArgument, before `take` has any, when there are more than
  // `most`: what is made of them may be much more than their bytes.
  void each(uint32_t field, size_t most, kj::FunctionParam<void(const WireField&)> take) const;

 private:
  Bytes message;
  void scan(uint32_t field, kj::FunctionParam<void(const WireField&)> take) const;
};

// What a field of texts has.
kj::String textOf(const WireField& field);

}  // namespace talos::edge
