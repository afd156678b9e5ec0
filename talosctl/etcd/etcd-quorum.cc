#include "talosctl/etcd/etcd-quorum.h"

namespace talos::talosctl {
namespace {

struct Count {
  unsigned voters = 0, silent = 0;
  unsigned majority() const { return voters / 2 + 1; }
  bool hasQuorum() const { return voters - silent >= majority(); }
};

Count count(EtcdMembers members, kj::Maybe<uint64_t> without = nullptr) {
  Count result;
  for (auto member : members) {
    bool gone = false;
    KJ_IF_MAYBE (id, without) gone = member.getId() == *id;
    if (gone || member.getLearner()) continue;
    ++result.voters;
    if (member.getProblem().size() > 0) ++result.silent;
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
    if (wanted.size() == 0 ? !member.getHere() : !named) continue;
    auto left = count(members, member.getId());
    auto name = member.getName().size() > 0 ? kj::str(member.getName()) : kj::mv(id);
    if (left.voters == 0) return kj::str(name, " is the only voter");
    return kj::str("without ", name, " it has ", text(left));
  }
  if (wanted.size() == 0) return kj::str("this node is not a member");
  return kj::str(wanted, " is not a member");
}

}  // namespace talos::talosctl
