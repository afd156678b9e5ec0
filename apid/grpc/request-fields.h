// A request, for methods that read it by hand. It is gone through once, when this is made, whatever
// is asked of it later; nothing is kept of a field but its last value and how often it was there,
// so a message of millions of fields costs no more than its bytes.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "apid/grpc/protobuf-wire.h"

namespace talos::edge {

class RequestFields {
 public:
  // InvalidArgument when it is no message.
  explicit RequestFields(Bytes message);

  // Numbers below kNumbers, of which no message of the original's has more. The last one of the
  // number; zero and empty when there is none. InvalidArgument when a text is not UTF-8.
  static constexpr uint32_t kNumbers = 16;
  uint64_t number(uint32_t field) const { return at(field).number; }
  bool flag(uint32_t field) const { return number(field) != 0; }
  kj::String text(uint32_t field) const;
  Bytes bytes(uint32_t field) const { return at(field).bytes; }
  RequestFields in(uint32_t field) const { return RequestFields(bytes(field)); }
  // Of bytes, even if there are none in it.
  bool has(uint32_t field) const { return at(field).ofBytes; }
  // Each one, in their order, by going through the message once more. InvalidArgument, before
  // `take` has any, when there are more than `most`: what is made of them may be much more than
  // their bytes.
  void each(uint32_t field, size_t most, kj::FunctionParam<void(const WireField&)> take) const;

 private:
  struct Seen {
    uint64_t number = 0;
    Bytes bytes;
    size_t count = 0;  // of any type
    bool ofBytes = false;
  };
  Bytes message;
  Seen seen[kNumbers];
  const Seen& at(uint32_t field) const;
};

// What a field of texts has.
kj::String textOf(const WireField& field);

}  // namespace talos::edge
