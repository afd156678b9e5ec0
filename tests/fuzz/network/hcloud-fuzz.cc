// The API of Hetzner Cloud, which assigns shared addresses.
//
// link: vipd-lib
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "tests/fuzz/fuzz-target.h"
#include "vipd/hcloud-place.h"

namespace {

using namespace talos;

void expectInvalid(kj::FunctionParam<void()> work) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(kj::mv(work))) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kInvalidArgument, *e);
  }
}

// The changes must leave the address at server 42 alone, and every other alias where it is.
void checkChanges(kj::ArrayPtr<const vipd::HcloudServer> servers) {
  auto address = Ip::require("10.0.0.9");
  kj::Vector<vipd::HcloudAliases> changes;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 changes = vipd::aliasChanges(address, {.server = 42, .network = 4711}, servers);
               })) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kNotFound, *e);
  }
  for (auto& change : changes) {
    bool has = false;
    for (auto& alias : change.aliases) has = has || alias == address;
    KJ_ASSERT(has == (change.server == 42));
  }
}

}  // namespace

FUZZ_TARGET(hcloud) {
  auto body = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  expectInvalid([&] { checkChanges(vipd::readHcloudServers(body).items); });
  expectInvalid([&] { vipd::readHcloudFloatingIps(body); });
  expectInvalid([&] { vipd::readHcloudFloatingIp(body); });
  expectInvalid([&] { vipd::readHcloudNetworks(body); });
  expectInvalid([&] {
    auto action = vipd::readHcloudAction(body, "t0ken");
    KJ_ASSERT(strstr(action.problem.cStr(), "t0ken") == nullptr);
  });
  auto error = vipd::readHcloudError(403, "Forbidden", body, "t0ken");
  KJ_ASSERT(error.size() <= 300 && strstr(error.cStr(), "t0ken") == nullptr);
  return 0;
}
