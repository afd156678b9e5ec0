#include "etcd-supervisor/plan/membership-types.h"

#include <algorithm>

#include "common/net/ip.h"
#include "common/text/texts.h"

namespace talos::supervisor {

namespace {

kj::Vector<kj::String> copied(const kj::Vector<kj::String>& texts) {
  kj::Vector<kj::String> result;
  for (auto& text : texts) result.add(kj::str(text));
  return result;
}

bool same(const kj::Vector<Argument>& a, const kj::Vector<Argument>& b) {
  if (a.size() != b.size()) return false;
  for (auto i : kj::indices(a)) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

}  // namespace

Config Config::clone() const {
  Config copy{.name = kj::str(name),
              .image = kj::str(image),
              .extraArgs = {},
              .addresses = copied(addresses),
              .listenAddresses = copied(listenAddresses),
              .peers = copied(peers),
              .shared = copied(shared),
              .bootstraps = bootstraps,
              .version = version,
              .member = member};
  for (auto& argument : extraArgs) {
    copy.extraArgs.add(Argument{kj::str(argument.key), kj::str(argument.value)});
  }
  return copy;
}

bool Wanted::operator==(const Wanted& other) const {
  return waitsFor == other.waitsFor && image == other.image && same(arguments, other.arguments) &&
         recoverFrom == other.recoverFrom && skipHashCheck == other.skipHashCheck &&
         configVersion == other.configVersion &&
         std::ranges::equal(formerAddresses, other.formerAddresses) && proxy == other.proxy;
}

kj::String hostOf(kj::StringPtr url) {
  KJ_IF_MAYBE (scheme, url.findFirst(':')) {
    auto rest = url.slice(*scheme + 1);
    if (!rest.startsWith("//")) return kj::String();
    rest = rest.slice(2);
    if (rest.startsWith("[")) {
      KJ_IF_MAYBE (end, rest.findFirst(']')) return kj::str(rest.slice(1, *end));
      return kj::String();
    }
    KJ_IF_MAYBE (end, rest.findFirst(':')) return kj::str(rest.slice(0, *end));
    KJ_IF_MAYBE (end, rest.findFirst('/')) return kj::str(rest.slice(0, *end));
    return kj::str(rest);
  }
  return kj::String();
}

kj::String urlOf(kj::StringPtr address, uint16_t port) {
  return kj::str("https://", hostInUrl(address, port));
}

kj::String hex(etcd::MemberId id) {
  return kj::str(kj::hex(id));
}

kj::String describe(const etcd::Member& member) {
  if (member.name.size() > 0) return kj::str(member.name);
  return kj::str("the member ", hex(member.id), ", which has not started yet");
}

kj::String joined(kj::ArrayPtr<const kj::String> texts) {
  return kj::strArray(texts, ", ");
}

etcd::Member clone(const etcd::Member& member) {
  return {.id = member.id,
          .name = kj::str(member.name),
          .peerUrls = copyOf(member.peerUrls),
          .clientUrls = copyOf(member.clientUrls),
          .learner = member.learner};
}

}  // namespace talos::supervisor
