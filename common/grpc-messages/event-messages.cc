#include "common/grpc-messages/event-messages.h"

namespace talos::grpcapi {
namespace {

constexpr kj::StringPtr kDigits = "0123456789abcdefghijklmnopqrstuv"_kj;
constexpr size_t kIdDigits = 20;

}  // namespace

kj::Maybe<kj::Array<kj::byte>> EventMessages::of(rpc::Event::Reader event) const {
  capnp::DynamicStruct::Reader value(event);
  KJ_IF_MAYBE (which, value.which()) {
    for (auto& kind : kinds) {
      if (kind.member != which->getProto().getName()) continue;
      return wrapped(kind.name, kind.shape.encode(value), event.getId());
    }
  }
  return nullptr;
}

kj::Array<kj::byte> EventMessages::of(rpc::MachineStatusSpec::Reader machine,
                                      kj::StringPtr id) const {
  return wrapped("MachineStatusEvent", status.encode(capnp::DynamicStruct::Reader(machine)), id);
}

// Any is {1 type_url, 2 value}.
kj::Array<kj::byte> EventMessages::wrapped(kj::StringPtr name, Bytes value,
                                           kj::StringPtr id) const {
  WireWriter any, out;
  any.text(1, kj::str("talos/runtime/machine.", name));
  if (value.size() > 0) any.bytes(2, value);
  out.bytes(fields.data, any.written());
  if (id.size() > 0) out.text(fields.id, id);
  return out.finish();
}

kj::String eventIdAt(uint64_t nanoseconds) {
  constexpr uint64_t kSecond = 1'000'000'000;
  auto bits = (unsigned __int128){nanoseconds / kSecond} << 68 |
              (unsigned __int128){nanoseconds % kSecond} << 36;
  auto text = kj::heapString(kIdDigits);
  for (auto i : kj::indices(text)) text[i] = kDigits[(bits >> (5 * (kIdDigits - 1 - i))) & 31];
  return text;
}

kj::String eventIdAfter(kj::StringPtr id) {
  auto text = kj::heapString(id);
  unsigned carry = 16;
  for (size_t i = text.size(); i > 0 && carry > 0; --i) {
    auto digit = kDigits.findFirst(text[i - 1]).orDefault(kDigits.size()) + carry;
    if (digit >= 2 * kDigits.size()) return kj::String();
    text[i - 1] = kDigits[digit % kDigits.size()];
    carry = digit / kDigits.size();
  }
  return text;
}

}  // namespace talos::grpcapi
