#include "machined/confined/parser/guest-info.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "machined/confined/parser/user-data.h"
#include "machined/platforms/readers/vmware.h"

namespace talos::parse {
namespace {

kj::Array<char> decodedGuestInfo(kj::StringPtr place, kj::Array<char> content) {
  kj::Array<char> text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 text = readUserData(platforms::Encoding::kBase64, kj::mv(content));
               })) {
    fail(kindOf(*e), kj::str(place, ": ", messageOf(*e)));
  }
  return text;
}

kj::Array<char> firstOf(GuestRpc& rpc, kj::ArrayPtr<const kj::StringPtr> keys) {
  for (auto key : keys) {
    auto name = kj::str("guestinfo.", key);
    KJ_IF_MAYBE (value, rpc.variable(name)) {
      auto text = decodedGuestInfo(name, kj::mv(*value));
      if (text.size() > 0) return text;
    }
  }
  auto environment = rpc.variable("guestinfo.ovfenv").orDefault(nullptr);
  KJ_DEFER(zeroize(environment));
  if (environment.size() == 0) return nullptr;
  for (auto key : keys) {
    auto text = decodedGuestInfo(kj::str("property ", key, " of guestinfo.ovfenv"),
                                 platforms::ovfProperty(key, environment));
    if (text.size() > 0) return text;
  }
  return nullptr;
}

}  // namespace

kj::Array<char> guestConfig(GuestRpc& rpc) {
  constexpr kj::StringPtr kKeys[] = {"talos.config"_kj, "userdata"_kj};
  return firstOf(rpc, kKeys);
}

kj::Array<char> guestMetadata(GuestRpc& rpc) {
  constexpr kj::StringPtr kKeys[] = {"metadata"_kj};
  return firstOf(rpc, kKeys);
}

}  // namespace talos::parse
