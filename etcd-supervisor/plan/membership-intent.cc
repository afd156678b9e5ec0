#include "etcd-supervisor/plan/membership-intent.h"

#include "common/base/error.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kNames[] = {"none"_kj, "makes"_kj, "joins"_kj, "leaves"_kj, "left"_kj};

[[noreturn]] void damaged(kj::StringPtr line) {
  fail(ErrorKind::kInvalidArgument, kj::str("unknown line \"", line, "\""));
}

Intent::State stateOf(kj::StringPtr word, kj::StringPtr line) {
  for (auto i : kj::indices(kNames)) {
    if (word == kNames[i]) return static_cast<Intent::State>(i);
  }
  damaged(line);
}

bool isKey(kj::StringPtr key) {
  for (char c : key) {
    if ((c < 'a' || c > 'z') && c != '-') return false;
  }
  return key.size() > 0;
}

// Reads "9f3a https://10.0.0.1:2380 m-1"; the name is the rest.
KnownMember readMember(kj::StringPtr value, kj::StringPtr line) {
  KnownMember known;
  auto idEnd = value.findFirst(' ').orDefault(value.size());
  auto rest = value.slice(kj::min(idEnd + 1, value.size()));
  auto urlEnd = rest.findFirst(' ').orDefault(rest.size());
  KJ_IF_MAYBE (id, kj::str("0x", value.slice(0, idEnd)).tryParseAs<uint64_t>()) {
    known.id = *id;
  } else {
    damaged(line);
  }
  known.peerUrl = kj::str(rest.slice(0, urlEnd));
  known.name = kj::str(rest.slice(kj::min(urlEnd + 1, rest.size())));
  if (known.peerUrl.size() == 0) damaged(line);
  return known;
}

void read(Intent& intent, kj::StringPtr line, bool& hasState) {
  auto space = line.findFirst(' ').orDefault(line.size());
  auto key = kj::str(line.slice(0, space));
  auto value = line.slice(kj::min(space + 1, line.size()));
  if (key == "state") {
    intent.state = stateOf(value, line);
    hasState = true;
  } else if (key == "member") {
    // tryParseAs() knows hexadecimal by its 0x.
    KJ_IF_MAYBE (id, kj::str("0x", value).tryParseAs<uint64_t>()) {
      intent.member = *id;
    } else {
      damaged(line);
    }
  } else if (key == "reboot-lease") {
    KJ_IF_MAYBE (id, kj::str("0x", value).tryParseAs<uint64_t>()) {
      intent.rebootLease = static_cast<etcd::LeaseId>(*id);
    } else {
      damaged(line);
    }
  } else if (key == "cluster") {
    intent.cluster = kj::str(value);
  } else if (line == "recovers") {
    intent.recovers = true;
  } else if (line == "skip-hash-check") {
    intent.skipHashCheck = true;
  } else if (key == "heard-of") {
    intent.learnedPeers.add(kj::str(value));
  } else if (key == "peer") {
    intent.members.add(readMember(value, line));
  } else if (key == "former-address") {
    intent.formerAddresses.add(kj::str(value));
  } else if (isKey(key)) {
    intent.unknown.add(kj::str(line));
  } else {
    damaged(line);
  }
}

}  // namespace

KnownMember clone(const KnownMember& member) {
  return {member.id, kj::str(member.peerUrl), kj::str(member.name)};
}

Intent Intent::clone() const {
  Intent copy{.state = state,
              .member = member,
              .rebootLease = rebootLease,
              .cluster = kj::str(cluster),
              .recovers = recovers,
              .skipHashCheck = skipHashCheck,
              .learnedPeers = {},
              .members = {},
              .formerAddresses = {},
              .unknown = {}};
  for (auto& one : learnedPeers) copy.learnedPeers.add(kj::str(one));
  for (auto& one : members) copy.members.add(talos::supervisor::clone(one));
  for (auto& one : formerAddresses) copy.formerAddresses.add(kj::str(one));
  for (auto& line : unknown) copy.unknown.add(kj::str(line));
  return copy;
}

kj::StringPtr nameOf(Intent::State state) {
  return kNames[static_cast<size_t>(state)];
}

kj::String format(const Intent& intent) {
  auto learnedPeers = KJ_MAP(one, intent.learnedPeers) {
    return kj::str("heard-of ", one, "\n");
  };
  auto members = KJ_MAP(one, intent.members) {
    return kj::str("peer ", hex(one.id), " ", one.peerUrl, " ", one.name, "\n");
  };
  auto formerAddresses = KJ_MAP(one, intent.formerAddresses) {
    return kj::str("former-address ", one, "\n");
  };
  return kj::str(
      "state ", nameOf(intent.state), "\n",
      intent.member == 0 ? kj::String() : kj::str("member ", hex(intent.member), "\n"),
      intent.rebootLease == 0
          ? kj::String()
          : kj::str("reboot-lease ", hex(static_cast<uint64_t>(intent.rebootLease)), "\n"),
      intent.cluster.size() == 0 ? kj::String() : kj::str("cluster ", intent.cluster, "\n"),
      intent.recovers ? "recovers\n" : "", intent.skipHashCheck ? "skip-hash-check\n" : "",
      kj::strArray(learnedPeers, ""), kj::strArray(members, ""), kj::strArray(formerAddresses, ""),
      kj::strArray(intent.unknown, "\n"), intent.unknown.empty() ? "" : "\n");
}

Intent parseIntent(kj::StringPtr text) {
  Intent intent;
  bool hasState = false;
  while (text.size() > 0) {
    KJ_IF_MAYBE (end, text.findFirst('\n')) {
      read(intent, kj::str(text.slice(0, *end)), hasState);
      text = text.slice(*end + 1);
    } else {
      damaged(text);
    }
  }
  if (!hasState) damaged("");
  return intent;
}

}  // namespace talos::supervisor
