// The fields of a request, for methods implemented in code. The constructor parses the message
// once; it keeps only the last value and the number of occurrences of each field, so a message of
// millions of fields costs no more than its bytes.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include "common/grpc-messages/protobuf-wire.h"

namespace talos::grpcapi {

class RequestFields {
 public:
  // Throws InvalidArgument if the bytes are not a message.
  explicit RequestFields(Bytes message);

  // Return fields with numbers below kNumbers, which is enough for all messages of the API: the
  // last of several; zero or empty if the field is missing. Throw InvalidArgument if a text is not
  // UTF-8.
  static constexpr uint32_t kNumbers = 16;
  uint64_t number(uint32_t field) const { return at(field).number; }
  bool flag(uint32_t field) const { return number(field) != 0; }
  kj::String text(uint32_t field) const;
  Bytes bytes(uint32_t field) const { return at(field).bytes; }
  RequestFields in(uint32_t field) const { return RequestFields(bytes(field)); }
  // Returns true if the message has a field of bytes with this number, even an empty one.
  bool has(uint32_t field) const { return at(field).ofBytes; }
  // Calls `take` for each occurrence in order, by parsing the message again. Throws InvalidArgument
  // before the first call if there are more than `most`: their decoded form may be much larger.
  void each(uint32_t field, size_t most, kj::FunctionParam<void(const WireField&)> take) const;

 private:
  struct Occurrences {
    uint64_t number = 0;
    Bytes bytes;
    size_t count = 0;  // occurrences with any type
    bool ofBytes = false;
  };
  Bytes message;
  Occurrences fields[kNumbers];
  const Occurrences& at(uint32_t field) const;
};

// Returns the text of a field.
kj::String textOf(const WireField& field);

}  // namespace talos::grpcapi
