#include "common/grpc-messages/request-fields.h"

#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::grpcapi {
namespace {

void scan(Bytes message, kj::FunctionParam<void(const WireField&)> take) {
  WireReader reader(message);
  for (;;) {
    KJ_IF_MAYBE (next, reader.next()) {
      take(*next);
    } else {
      return;
    }
  }
}

}  // namespace

RequestFields::RequestFields(Bytes message) : message(message) {
  scan(message, [this](const WireField& field) {
    if (field.number >= kNumbers) return;
    auto& one = fields[field.number];
    ++one.count;
    if (field.type == WireType::kVarint) one.number = field.value;
    if (field.type == WireType::kBytes) {
      one.bytes = field.bytes;
      one.ofBytes = true;
    }
  });
}

const RequestFields::Occurrences& RequestFields::at(uint32_t field) const {
  KJ_REQUIRE(field < kNumbers, field);
  return fields[field];
}

void RequestFields::each(uint32_t field, size_t most,
                         kj::FunctionParam<void(const WireField&)> take) const {
  auto count = at(field).count;
  if (count > most) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("field ", field, " occurs ", count, " times; at most ", most, " are accepted"));
  }
  if (count == 0) return;
  scan(message, [&](const WireField& one) {
    if (one.number == field) take(one);
  });
}

kj::String RequestFields::text(uint32_t field) const {
  return textOf(WireField{field, WireType::kBytes, 0, bytes(field)});
}

kj::String textOf(const WireField& field) {
  if (!isUtf8(field.bytes.asChars())) fail(ErrorKind::kInvalidArgument, "a text is not UTF-8");
  return kj::heapString(field.bytes.asChars());
}

}  // namespace talos::grpcapi
