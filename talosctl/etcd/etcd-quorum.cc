#include "talosctl/etcd/etcd-quorum.h"

namespace talos::talosctl {
namespace {

struct Count {
  unsigned voters = 0, silent = 0;
  unsigned majority() const { return voters / 2 + 1; }
  bool hasQuorum() const { return voters - silent >= majority(); }
};

enum class Gone { kRemoved, kSilent };

Count count(EtcdMembers members, kj::Maybe<uint64_t> without = nullptr,
            Gone gone = Gone::kRemoved) {
  Count result;
  for (auto member : members) {
    bool goes = false;
    KJ_IF_MAYBE (id, without) goes = member.getId() == *id;
    if ((goes && gone == Gone::kRemoved) || member.getLearner()) continue;
    ++result.voters;
    if (goes || member.getProblem().size() > 0) ++result.silent;
  }
  return result;
}

kj::String failures(unsigned number) {
  if (number == 0) return kj::str("no failure");
  return kj::str(number, number == 1 ? " failure" : " failures");
}

kj::String text(Count count) {
  auto voters = kj::str(count.voters, count.voters == 1 ? " voter" : " voters");
  auto silent =
      kj::str(", ", count.silent, " of which ", count.silent == 1 ? "does" : "do", " not answer");
  if (!count.hasQuorum()) return kj::str(voters, silent, ": no quorum");
  auto more = count.voters - count.silent - count.majority();
  if (count.silent == 0) {
    return kj::str(voters, count.voters == 1 ? ", which tolerates " : ", which tolerate ",
                   failures(more));
  }
  return kj::str(voters, silent, "; they tolerate ", failures(more), more == 0 ? "" : " more");
}

kj::Maybe<rpc::Etcd::Member::Reader> localMember(EtcdMembers members) {
  for (auto member : members) {
    if (member.getLocal()) return member;
  }
  return nullptr;
}

kj::String nameOf(rpc::Etcd::Member::Reader member) {
  return member.getName().size() > 0 ? kj::str(member.getName()) : memberIdText(member.getId());
}

}  // namespace

kj::String memberIdText(uint64_t id) {
  auto text = kj::str(kj::hex(id));
  kj::Vector<char> zeros;
  while (zeros.size() + text.size() < 16) zeros.add('0');
  return kj::str(zeros, text);
}

kj::String quorumText(EtcdMembers members) {
  return kj::str("etcd has ", text(count(members)));
}

kj::String quorumTextWithout(EtcdMembers members, kj::StringPtr wanted) {
  for (auto member : members) {
    auto id = memberIdText(member.getId());
    bool named = member.getName() == wanted || id == wanted;
    if (wanted.size() == 0 ? !member.getLocal() : !named) continue;
    auto left = count(members, member.getId());
    if (left.voters == 0) return kj::str(nameOf(member), " is the only voter");
    return kj::str("without ", nameOf(member), " it has ", text(left));
  }
  if (wanted.size() == 0) return kj::str("this node is not a member");
  return kj::str(wanted, " is not a member");
}

kj::String departureText(EtcdMembers members, EtcdDeparture departure) {
  auto now = quorumText(members);
  auto local = localMember(members);
  KJ_IF_MAYBE (member, local) {
    auto name = nameOf(*member);
    bool only = !member->getLearner() && count(members, member->getId()).voters == 0;
    bool stays = departure == EtcdDeparture::kErased || departure == EtcdDeparture::kRestarts;
    if (only && departure != EtcdDeparture::kRestarts) {
      return kj::str(now, "; ", name,
                     " is the only voter: the cluster, and all of its data, end with it");
    }
    if (!stays || member->getLearner()) {
      return kj::str(now, "; ", quorumTextWithout(members, ""),
                     departure == EtcdDeparture::kRejoins ? ", until it has joined again" : "");
    }
    auto then = text(count(members, member->getId(), Gone::kSilent));
    if (departure == EtcdDeparture::kRestarts) {
      return kj::str(now, "; while ", name, " restarts it has ", then);
    }
    return kj::str(now, "; ", name, " does not leave it: it has ", then,
                   ", until talosctl etcd remove-member ", memberIdText(member->getId()),
                   " on another node");
  }
  return kj::str(now, "; this node is not a member");
}

}  // namespace talos::talosctl
