#include "machined/confined/parser/guest-info.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "machined/confined/parser/user-data.h"
#include "machined/platforms/readers/vmware.h"

namespace talos::parse {
namespace {

kj::Array<char> firstOf(GuestRpc& rpc, kj::ArrayPtr<const kj::StringPtr> keys) {
  for (auto key : keys) {
    auto name = kj::str("guestinfo.", key);
    KJ_IF_MAYBE (value, rpc.variable(name)) {
      kj::Array<char> text;
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                     text = readUserData(platforms::Encoding::kBase64, kj::mv(*value));
                   })) {
        fail(kindOf(*e), kj::str(name, ": ", messageOf(*e)));
      }
      if (text.size() > 0) return text;
    }
  }
  auto environment = rpc.variable("guestinfo.ovfenv").orDefault(nullptr);
  KJ_DEFER(zeroize(environment));
  if (environment.size() == 0) return nullptr;
  return readOvfProperties(keys, "guestinfo.ovfenv", environment);
}

}  // namespace

kj::Array<char> guestConfig(GuestRpc& rpc) {
  return firstOf(rpc, platforms::kConfigProperties);
}

kj::Array<char> guestMetadata(GuestRpc& rpc) {
  return firstOf(rpc, platforms::kMetadataProperties);
}

}  // namespace talos::parse
