#include "machined/confined/parser/guest-info.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "machined/confined/parser/user-data.h"
#include "machined/platforms/cloud-config.h"
#include "machined/platforms/readers/file-platforms.h"

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

// Returns false if the value is empty, or for another system. A value that cannot be decoded may be
// a config.
bool mayBeConfig(kj::ArrayPtr<const char> value) {
  bool is = trimmed(value).size() > 0;
  (void)kj::runCatchingExceptions([&]() {
    auto text = readUserData(platforms::Encoding::kBase64, kj::heapArray(value));
    KJ_DEFER(zeroize(text));
    is = text.size() > 0;
  });
  return is && !platforms::isCloudConfig(value);
}

void replace(GuestRpc& rpc, kj::StringPtr name, kj::StringPtr value) {
  rpc.set(name, value);
  auto now = rpc.variable(name).orDefault(nullptr);
  KJ_DEFER(zeroize(now));
  if (trimmed(now) != trimmed(value)) {
    fail(ErrorKind::kUnavailable,
         kj::str("the hypervisor says that it changed ", name, ", and gives another value"));
  }
}

}  // namespace

kj::Array<char> guestConfig(GuestRpc& rpc) {
  return firstOf(rpc, platforms::kConfigProperties);
}

kj::Array<char> guestMetadata(GuestRpc& rpc) {
  return firstOf(rpc, platforms::kMetadataProperties);
}

kj::Vector<kj::String> clearGuestConfig(GuestRpc& rpc) {
  // The hypervisor can neither remove a variable nor make it empty.
  constexpr kj::StringPtr kNothing = " "_kj;
  kj::Vector<kj::String> cleared;
  for (auto key : platforms::kConfigProperties) {
    auto name = kj::str("guestinfo.", key);
    auto value = rpc.variable(name).orDefault(nullptr);
    KJ_DEFER(zeroize(value));
    if (!mayBeConfig(value)) continue;
    replace(rpc, name, kNothing);
    cleared.add(kj::mv(name));
  }
  constexpr kj::StringPtr kEnvironment = "guestinfo.ovfenv"_kj;
  auto environment = rpc.variable(kEnvironment).orDefault(nullptr);
  KJ_DEFER(zeroize(environment));
  if (environment.size() == 0) return cleared;
  KJ_IF_MAYBE (rest,
               platforms::ovfWithout(platforms::kConfigProperties, kEnvironment, environment)) {
    replace(rpc, kEnvironment, *rest);
    cleared.add(kj::str(kEnvironment));
  }
  return cleared;
}

}  // namespace talos::parse
