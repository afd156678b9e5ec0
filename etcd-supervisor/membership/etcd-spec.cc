#include "etcd-supervisor/membership/etcd-spec.h"

#include <array>
#include <compare>
#include <map>
#include <string>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "etcd-supervisor/plan/moved-member.h"

namespace talos::supervisor {
namespace {

struct Fixed {
  kj::StringPtr key, value;
};
constexpr Fixed kFixed[] = {
    {"data-dir"_kj, kDataFolder},
    {"trusted-ca-file"_kj, "/etc/kubernetes/pki/etcd/ca.crt"_kj},
    {"cert-file"_kj, "/etc/kubernetes/pki/etcd/server.crt"_kj},
    {"key-file"_kj, "/etc/kubernetes/pki/etcd/server.key"_kj},
    {"client-cert-auth"_kj, "true"_kj},
    {"auto-tls"_kj, "false"_kj},
    {"peer-trusted-ca-file"_kj, "/etc/kubernetes/pki/etcd/ca.crt"_kj},
    {"peer-cert-file"_kj, "/etc/kubernetes/pki/etcd/peer.crt"_kj},
    {"peer-key-file"_kj, "/etc/kubernetes/pki/etcd/peer.key"_kj},
    {"peer-client-cert-auth"_kj, "true"_kj},
    {"peer-auto-tls"_kj, "false"_kj},
};

constexpr kj::StringPtr kNobody =
    "a cluster: run talosctl bootstrap on one control-plane node, or wait for one that this node "
    "can join"_kj;
constexpr kj::StringPtr kGone =
    "the next reboot: this node left its cluster and joins one again then"_kj;

using Version = std::array<unsigned, 3>;
struct OfVersions {
  kj::StringPtr key, value;
  Version from, until;  // until: the first that does not know it
};
constexpr OfVersions kOfVersions[] = {
    {"experimental-initial-corrupt-check"_kj, "true"_kj, {3, 3, 0}, {3, 7, 0}},
    {"experimental-watch-progress-notify-interval"_kj, "5s"_kj, {3, 5, 0}, {3, 7, 0}},
    {"experimental-compact-hash-check-enabled"_kj, "true"_kj, {3, 5, 5}, {3, 7, 0}},
};
constexpr Version kSystemVersion = {3, 5, 16};  // of the etcd in the system's image, or newer

constexpr kj::StringPtr kOfFirstStart[] = {"initial-advertise-peer-urls"_kj, "initial-cluster"_kj,
                                           "initial-cluster-state"_kj, "initial-cluster-token"_kj};

// Returns the version in the tag: "v3.4.15", "3.5.16-0"; nullptr for a digest, or for a tag that is
// not a version.
kj::Maybe<Version> versionOf(kj::StringPtr image) {
  if (image.size() == 0) return kSystemVersion;
  if (image.findFirst('@') != nullptr) return nullptr;
  auto tag = image.slice(image.findLast(':').orDefault(image.size() - 1) + 1);
  if (tag.startsWith("v")) tag = tag.slice(1);
  Version version{};
  size_t part = 0, digits = 0;
  for (char c : tag) {
    if (c >= '0' && c <= '9' && digits < 6) {
      version[part] = version[part] * 10 + static_cast<unsigned>(c - '0');
      ++digits;
    } else if (c == '.' && digits > 0 && part < 2) {
      ++part;
      digits = 0;
    } else if (c == '-' && part == 2) {
      break;
    } else {
      return nullptr;
    }
  }
  if (part < 2 || digits == 0) return nullptr;
  return version;
}

using Sorted = std::map<std::string, std::string>;

void put(Sorted& out, kj::StringPtr key, kj::StringPtr value) {
  out[key.cStr()] = value.cStr();
}

kj::String listening(const Config& config, uint16_t port, bool loopback) {
  kj::Vector<kj::String> urls;
  if (config.listenAddresses.empty()) {
    bool six = false;
    for (auto& address : config.addresses) six |= address.findFirst(':') != nullptr;
    return urlOf(six ? "::" : "0.0.0.0", port);
  }
  if (loopback) urls.add(urlOf("127.0.0.1", port));
  for (auto& address : config.listenAddresses) urls.add(urlOf(address, port));
  return kj::strArray(urls, ",");
}

Wanted waits(const Config& config, kj::StringPtr what) {
  Wanted wanted;
  wanted.waitsFor = kj::str(what);
  wanted.configVersion = config.version;
  return wanted;
}

Start startOf(const Intent& intent, Data data) {
  if (data == Data::kWhole) return {};
  if (intent.state == Intent::State::kJoins)
    return {Start::From::kExisting, kj::str(intent.cluster)};
  return {Start::From::kNew, kj::str(intent.cluster)};
}

}  // namespace

kj::Vector<Argument> argumentsOf(const Config& config, const Start& start) {
  Sorted arguments;
  auto& address = config.addresses[0];
  auto peerUrl = urlOf(address, kEtcdPeerPort);
  put(arguments, "advertise-client-urls", urlOf(address, kEtcdPort));
  if (start.from != Start::From::kData) {
    bool fresh = start.from == Start::From::kNew;
    put(arguments, "initial-advertise-peer-urls", peerUrl);
    put(arguments, "initial-cluster",
        fresh ? kj::str(config.name, "=", peerUrl) : kj::str(start.cluster));
    put(arguments, "initial-cluster-state", fresh ? "new" : "existing");
    if (fresh) put(arguments, "initial-cluster-token", start.cluster);
  }
  KJ_IF_MAYBE (version, versionOf(config.image)) {
    for (auto& known : kOfVersions) {
      if (*version >= known.from && *version < known.until) put(arguments, known.key, known.value);
    }
  }
  for (auto& extra : config.extraArgs) put(arguments, extra.key, extra.value);
  for (auto& fixed : kFixed) put(arguments, fixed.key, fixed.value);
  put(arguments, "name", config.name);
  put(arguments, "listen-client-urls", listening(config, kEtcdPort, true));
  put(arguments, "listen-peer-urls", listening(config, kEtcdPeerPort, false));
  kj::Vector<Argument> result;
  for (auto& [key, value] : arguments)
    result.add(Argument{kj::str(key.c_str()), kj::str(value.c_str())});
  return result;
}

kj::Vector<Argument> keepFirstStart(kj::Vector<Argument> arguments,
                                    kj::ArrayPtr<const Argument> running) {
  Sorted all;
  for (auto& argument : running) {
    for (auto key : kOfFirstStart) {
      if (argument.key == key) put(all, argument.key, argument.value);
    }
  }
  for (auto& argument : arguments) put(all, argument.key, argument.value);
  kj::Vector<Argument> result;
  for (auto& [key, value] : all) result.add(Argument{kj::str(key.c_str()), kj::str(value.c_str())});
  return result;
}

kj::String initialCluster(kj::ArrayPtr<const etcd::Member> members, etcd::MemberId own,
                          kj::StringPtr name) {
  kj::Vector<kj::String> entries;
  for (auto& member : members) {
    auto called = member.id == own          ? kj::str(name)
                  : member.name.size() == 0 ? hex(member.id)
                                            : kj::str(member.name);
    for (auto& url : member.peerUrls) entries.add(kj::str(called, "=", url));
  }
  return kj::strArray(entries, ",");
}

Wanted wantedOf(const Config& config, const Intent& intent, Data data,
                kj::Maybe<const Wanted&> running, kj::StringPtr snapshot, bool routed) {
  auto phase = phaseOf(intent, data);
  if (phase == Phase::kWaiting) return waits(config, kNobody);
  if (phase == Phase::kLeft) return waits(config, kGone);
  // Without its log a member would start from nothing, which no operator has requested.
  bool starts = phase == Phase::kBootstrapping || phase == Phase::kJoining;
  if (data != Data::kWhole && !starts) return waits(config, kLostLog);
  Wanted wanted;
  wanted.image = kj::str(config.image);
  wanted.configVersion = config.version;
  wanted.arguments = argumentsOf(config, startOf(intent, data));
  KJ_IF_MAYBE (now, running) {
    if (data == Data::kWhole && now->waitsFor.size() == 0) {
      wanted.arguments = keepFirstStart(kj::mv(wanted.arguments), now->arguments);
    }
  }
  if (phase == Phase::kBootstrapping && intent.recovers) {
    wanted.recoverFrom = kj::str(snapshot);
    wanted.skipHashCheck = intent.skipHashCheck;
  }
  if (data == Data::kWhole) {
    wanted.formerAddresses = formerAddressesOf(config, intent);
    if (routed) wanted.proxy = kj::str("http://127.0.0.1:", kEtcdProxyPort);
  }
  return wanted;
}

Wanted EtcdSpec::wanted(const Config& config) {
  return wantedOf(config, self.intent(), self.data(), deps.store.wanted(), deps.files.snapshot(),
                  self.routed());
}

kj::Promise<void> EtcdSpec::publish() {
  kj::Maybe<Wanted> last;
  for (;;) {
    auto changed = self.changed.next();
    KJ_IF_MAYBE (config, deps.store.config()) {
      auto next = wanted(*config);
      bool same = false;
      KJ_IF_MAYBE (before, last) same = *before == next && !publishedOther;
      if (!same) {
        kj::Maybe<kj::Exception> failure;
        auto copy = wanted(*config);
        publishedOther = false;
        co_await deps.store.want(kj::mv(next))
            .then([] {}, [&](kj::Exception&& e) { failure = kj::mv(e); });
        KJ_IF_MAYBE (e, failure) {
          log::warn("cannot publish the spec of etcd; retrying", {{"error", messageOf(*e)}});
          publishedOther = true;
          co_await deps.timer.afterDelay(kStoreRetry);
        } else {
          last = kj::mv(copy);
        }
        continue;
      }
    }
    co_await changed;
  }
}

kj::Promise<void> EtcdSpec::publishWithoutIntent() {
  return deps.store.want(wantedOf(self.config(), Intent(), Data::kNone, nullptr, nullptr));
}

void EtcdSpec::repeat() {
  publishedOther = true;
  self.changed.raise();
}

}  // namespace talos::supervisor
