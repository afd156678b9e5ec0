// etcd members, status, leave, remove-member, forfeit-leadership, alarm, defrag
#include "talosctl/etcd/etcd-commands.h"

#include "common/base/error.h"
#include "common/text/foreign-text.h"
#include "common/text/size.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/etcd/etcd-quorum.h"

namespace talos::talosctl {

namespace {

using rpc::Etcd;

// Long, because a change of members waits for its turn in the cluster, and for etcd to end.
constexpr auto kMemberChange = 2 * kj::MINUTES;
constexpr auto kDefragment = 5 * kj::MINUTES;  // for some GB

Etcd::Client etcdOf(rpc::Node::Client node) {
  return node.etcdRequest().send().getEtcd();
}

// --- tables, in the layouts of Talos

kj::String commaList(capnp::List<capnp::Text>::Reader texts) {
  return kj::strArray(texts, ",");
}

kj::String renderEtcdMembers(kj::ArrayPtr<const Reply<Etcd::MembersResults>> replies) {
  Table table(
      {"NODE", "ID", "HOSTNAME", "PEER URLS", "CLIENT URLS", "LEARNER", "LEADER", "HEALTH"});
  for (auto& r : replies) {
    for (auto m : r.value.getMembers()) {
      table.add(r.node, memberIdText(m.getId()), m.getName(), commaList(m.getPeerUrls()),
                commaList(m.getClientUrls()), m.getLearner() ? "true" : "false",
                m.getLeader() ? "true" : "false",
                m.getProblem().size() > 0 ? m.getProblem() : kj::StringPtr("OK"));
    }
  }
  return table.render();
}

kj::String renderEtcdStatus(kj::ArrayPtr<const Reply<Etcd::StatusResults>> replies) {
  Table table({"NODE", "MEMBER", "DB SIZE", "IN USE", "LEADER", "RAFT INDEX", "RAFT TERM",
               "RAFT APPLIED INDEX", "LEARNER", "ERRORS"});
  for (auto& r : replies) {
    auto s = r.value.getStatus();
    table.add(r.node, memberIdText(s.getId()), decimalSize(s.getDbSize()),
              decimalSize(s.getDbSizeInUse()), memberIdText(s.getLeader()), s.getRaftIndex(),
              s.getRaftTerm(), s.getRaftAppliedIndex(), s.getLearner() ? "true" : "false",
              commaList(s.getErrors()));
  }
  return table.render();
}

// Returns an empty text without an alarm.
template <typename Results>
kj::String renderEtcdAlarms(kj::ArrayPtr<const Reply<Results>> replies) {
  Table table({"NODE", "MEMBER", "HOSTNAME", "ALARM"});
  bool any = false;
  for (auto& r : replies) {
    for (auto a : r.value.getAlarms()) {
      table.add(r.node, memberIdText(a.getMember()), a.getName(), a.getAlarm());
      any = true;
    }
  }
  return any ? table.render() : kj::String();
}

// Returns the note of an answer without a row; empty if there are alarms.
template <typename Results>
kj::String noAlarms(kj::ArrayPtr<const Reply<Results>> replies) {
  for (auto& r : replies) {
    if (r.value.getAlarms().size() > 0) return kj::String();
  }
  return kj::str("no alarms");
}

// --- commands

kj::Promise<int> runEtcdMembers(Invocation& call) {
  return tabulate<Etcd::MembersResults>(
      call, [](rpc::Node::Client node) { return etcdOf(kj::mv(node)).membersRequest().send(); },
      [](Invocation& call, kj::ArrayPtr<const Reply<Etcd::MembersResults>> replies) {
        for (auto& r : replies) {
          if (r.value.getQuorum()) continue;
          call.err(kj::str(r.node, ": etcd has no quorum: showing its last known members\n"));
        }
        return renderEtcdMembers(replies);
      });
}

kj::Promise<int> runEtcdStatus(Invocation& call) {
  return tabulate<Etcd::StatusResults>(
      call, [](rpc::Node::Client node) { return etcdOf(kj::mv(node)).statusRequest().send(); },
      [](Invocation&, kj::ArrayPtr<const Reply<Etcd::StatusResults>> replies) {
        return renderEtcdStatus(replies);
      });
}

kj::Promise<int> runAlarms(Invocation& call) {
  return tabulate<Etcd::AlarmsResults>(
      call, [](rpc::Node::Client node) { return etcdOf(kj::mv(node)).alarmsRequest().send(); },
      [](Invocation& call, kj::ArrayPtr<const Reply<Etcd::AlarmsResults>> replies) {
        call.done = noAlarms(replies);
        return renderEtcdAlarms(replies);
      });
}

// Shows the disarmed alarms.
kj::Promise<int> runDisarm(Invocation& call) {
  return tabulate<Etcd::DisarmResults>(
      call, [](rpc::Node::Client node) { return etcdOf(kj::mv(node)).disarmRequest().send(); },
      [](Invocation& call, kj::ArrayPtr<const Reply<Etcd::DisarmResults>> replies) {
        call.done = noAlarms(replies);
        return renderEtcdAlarms(replies);
      });
}

// Defragments one member at a time, because the others have to answer meanwhile.
kj::Promise<int> runDefragment(Invocation& call) {
  auto session = co_await openSingle(call);
  auto node = session->client.node(session->client.nodes()[0]);
  auto answer = co_await within(call.deps.timer, session->deadline,
                                kj::Promise<capnp::Response<Etcd::DefragmentResults>>(
                                    etcdOf(node).defragmentRequest().send()));
  printDone(call, session->client.nodes()[0],
            {{"before"_kj, kj::str(answer.getBefore())}, {"after"_kj, kj::str(answer.getAfter())}});
  if (formatOf(call) == Format::kTable) {
    call.done = kj::str("defragmented: ", decimalSize(answer.getBefore()), " before, ",
                        decimalSize(answer.getAfter()), " now");
  }
  co_return 0;
}

kj::Promise<int> runForfeit(Invocation& call) {
  auto session = co_await openSingle(call);
  auto node = session->client.node(session->client.nodes()[0]);
  auto answer = co_await within(call.deps.timer, session->deadline,
                                kj::Promise<capnp::Response<Etcd::ForfeitLeadershipResults>>(
                                    etcdOf(node).forfeitLeadershipRequest().send()));
  printDone(call, session->client.nodes()[0], {{"leader"_kj, jsonString(answer.getLeader())}});
  if (formatOf(call) == Format::kTable) {
    call.done = answer.getLeader().size() > 0
                    ? kj::str("the leader is ", answer.getLeader())
                    : kj::str("this member was not the leader; nothing has changed");
  }
  co_return 0;
}

// Prints the consequence of the change before it is requested. If the consequence is unknown, the
// request is sent all the same: the node knows more, and refuses it if it must.
kj::Promise<void> printConsequence(Invocation& call, Session& session, kj::StringPtr member) {
  auto members = etcdOf(session.client.node(session.client.nodes()[0])).membersRequest().send();
  co_await within(call.deps.timer, session.deadline,
                  kj::Promise<capnp::Response<Etcd::MembersResults>>(kj::mv(members)))
      .then(
          [&](capnp::Response<Etcd::MembersResults>&& answer) {
            auto list = answer.getMembers();
            auto old = answer.getQuorum() ? ""_kj : ", as last known by this node"_kj;
            call.err(kj::str(printableText(kj::str(quorumText(list), old, "; ",
                                                   quorumTextWithout(list, member))),
                             "\n"));
          },
          [&](kj::Exception&& e) {
            call.err(
                kj::str("the members of etcd are not known: ", printableText(messageOf(e)), "\n"));
          });
}

kj::Promise<int> runLeave(Invocation& call) {
  auto session = co_await openSingle(call);
  co_await printConsequence(call, *session, "");
  bool force = call.on("force");
  auto answers = co_await askAll<Etcd::LeaveResults>(*session, [force](rpc::Node::Client node) {
    auto request = etcdOf(kj::mv(node)).leaveRequest();
    request.setForce(force);
    return request.send();
  });
  call.done = kj::str("left etcd");
  co_return concludeDone(call, answers);
}

kj::Promise<int> runRemove(Invocation& call) {
  kj::StringPtr member = call.arguments[0];
  auto session = co_await openSingle(call);
  co_await printConsequence(call, *session, member);
  bool force = call.on("force");
  auto answers = co_await askAll<Etcd::RemoveMemberResults>(*session, [&](rpc::Node::Client node) {
    auto request = etcdOf(kj::mv(node)).removeMemberRequest();
    request.setMember(member);
    request.setForce(force);
    return request.send();
  });
  call.done = kj::str("removed the member ", member);
  co_return concludeDone(call, answers);
}

// Declares the flags of a command that changes the members.
void declareChange(Command& command) {
  command.timeout = kMemberChange;
  addOutputFlag(command);
}

void addForce(Command& command) {
  command.flag({.name = "force", .help = "remove the member even if the others lose their quorum"});
}

void addMemberCommands(Command& etcd) {
  auto& members = etcd.add("members", "List the members of etcd and their state");
  addOutputFlag(members);
  members.run = runEtcdMembers;

  auto& status = etcd.add("status", "Show the state of etcd on each node");
  addOutputFlag(status);
  status.run = runEtcdStatus;

  auto& leave = etcd.add("leave", "Make a node leave etcd, and remove its data");
  leave.details =
      "The node is no longer a member when the command returns. It joins again after its next "
      "boot. Prints how many members may fail before and after.";
  addForce(leave);
  declareChange(leave);
  leave.run = runLeave;

  auto& remove = etcd.add("remove-member", "Remove another member, whose node is gone");
  remove.arguments = "<id or host name>";
  remove.least = remove.most = 1;
  remove.details = "Does not touch the data of that node. For a running node use etcd leave.";
  addForce(remove);
  declareChange(remove);
  remove.run = runRemove;

  auto& forfeit = etcd.add("forfeit-leadership", "Make another member the leader of etcd");
  declareChange(forfeit);
  forfeit.run = runForfeit;
}

}  // namespace

void addEtcdCommands(Command& root) {
  auto& etcd = root.add("etcd", "Manage etcd and its members");
  addMemberCommands(etcd);

  addSnapshotCommand(etcd);

  auto& alarm = etcd.add("alarm", "List and disarm the alarms of etcd");
  auto& list = alarm.add("list", "List the alarms of etcd");
  addOutputFlag(list);
  list.run = runAlarms;
  auto& disarm = alarm.add("disarm", "Disarm all alarms of etcd");
  addOutputFlag(disarm);
  disarm.run = runDisarm;

  auto& defrag = etcd.add("defrag", "Free unused space of etcd's database");
  defrag.details = "The member does not answer meanwhile. Defragment one node at a time.";
  defrag.timeout = kDefragment;
  addOutputFlag(defrag);
  defrag.run = runDefragment;
}

}  // namespace talos::talosctl
