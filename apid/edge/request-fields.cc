#include "apid/edge/request-fields.h"

#include "common/base/error.h"

namespace talos::edge {

void RequestFields::scan(uint32_t field, kj::FunctionParam<void(const WireField&)> take) const {
  WireReader reader(message);
  for (;;) {
    KJ_IF_MAYBE (next, reader.next()) {
      if (next->number == field) take(*next);
    } else {
      return;
    }
  }
}

void RequestFields::each(uint32_t field, size_t most,
                         kj::FunctionParam<void(const WireField&)> take) const {
  size_t count = 0;
  scan(field, [&](const WireField&) { ++count; });
  if (count > most) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("field ", field, " is there ", count, " times; at most ", most, " are read"));
  }
  scan(field, kj::mv(take));
}

uint64_t RequestFields::number(uint32_t field) const {
  uint64_t value = 0;
  scan(field, [&](const WireField& f) {
    if (f.type == WireType::kVarint) value = f.value;
  });
  return value;
}

Bytes RequestFields::bytes(uint32_t field) const {
  Bytes value;
  scan(field, [&](const WireField& f) {
    if (f.type == WireType::kBytes) value = f.bytes;
  });
  return value;
}

bool RequestFields::has(uint32_t field) const {
  bool found = false;
  scan(field, [&](const WireField& f) { found = found || f.type == WireType::kBytes; });
  return found;
}

kj::String RequestFields::text(uint32_t field) const {
  return textOf(WireField{field, WireType::kBytes, 0, bytes(field)});
}

kj::String textOf(const WireField& field) {
  if (!isUtf8(field.bytes.asChars())) fail(ErrorKind::kInvalidArgument, "a text is not UTF-8");
  return kj::heapString(field.bytes.asChars());
}

}  // namespace talos::edge
