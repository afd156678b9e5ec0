// link: machined-confined-parser
// The hypervisor's side of the port of VMware. The first byte chooses: either the answer to each
// call (a status, then the registers EBX and EDX), or the values of variables, separated by a byte
// of 1, in the order in which they are requested, from a hypervisor that keeps the protocol.
#include <kj/debug.h>
#include <string.h>

#include "machined/confined/parser/guest-info.h"
#include "machined/confined/parser/test-hypervisor.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::parse;

void readAll(GuestRpc& rpc) {
  kj::Array<char> config;
  (void)kj::runCatchingExceptions([&] { config = guestConfig(rpc); });
  KJ_ASSERT(config.size() <= machined::kMostConfigBytes);
  (void)kj::runCatchingExceptions([&] { guestMetadata(rpc); });
}

void withAnswers(kj::ArrayPtr<const uint8_t> data) {
  constexpr size_t kCall = 7;
  size_t calls = 0;
  PortCall port = [&](PortRegisters& r) {
    ++calls;
    if (r.ecx == 10) {
      r.ebx = r.eax;
      return;
    }
    if (data.size() < kCall) {
      r.ecx = 0;
      return;
    }
    r.ecx = uint32_t{data[0]} << 16;
    memcpy(&r.ebx, data.begin() + 1, 4);
    r.edx = uint32_t{data[5]} << 16 | uint32_t{data[6]} << 24;
    data = data.slice(kCall, data.size());
  };
  auto most = data.size() / kCall + 64;
  kj::Maybe<GuestRpc> rpc;
  (void)kj::runCatchingExceptions([&] { rpc.emplace(kj::mv(port)); });
  KJ_IF_MAYBE (r, rpc) {
    readAll(*r);
    (void)kj::runCatchingExceptions([&] { clearGuestConfig(*r); });
  }
  rpc = nullptr;
  KJ_ASSERT(calls <= most, "it goes on asking after a refusal");
}

void withVariables(kj::ArrayPtr<const uint8_t> data) {
  constexpr uint8_t kBetween = 1;
  TestHypervisor hypervisor;
  for (auto name :
       {"guestinfo.talos.config", "guestinfo.userdata", "guestinfo.ovfenv", "guestinfo.metadata"}) {
    size_t end = 0;
    while (end < data.size() && data[end] != kBetween) ++end;
    auto value = data.slice(0, end).asChars();
    if (value.size() > 0) hypervisor.variables[name] = {value.begin(), value.size()};
    data = data.slice(kj::min(end + 1, data.size()), data.size());
  }
  {
    GuestRpc rpc(hypervisor.port());
    readAll(rpc);
    if (kj::runCatchingExceptions([&] { clearGuestConfig(rpc); }) == nullptr) {
      KJ_ASSERT(guestConfig(rpc).size() == 0, "the config is still there");
    }
  }
  KJ_ASSERT(hypervisor.open == 0, "a channel was left open");
}

}  // namespace

FUZZ_TARGET(guestrpc) {
  if (size == 0) return 0;
  auto rest = kj::arrayPtr(data + 1, size - 1);
  (data[0] & 1) == 0 ? withAnswers(rest) : withVariables(rest);
  return 0;
}
