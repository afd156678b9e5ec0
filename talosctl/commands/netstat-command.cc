// netstat
#include "common/base/error.h"
#include "common/wire/pod-networks.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using rpc::Machine;
using Sockets = Machine::NetstatResults;

bool isOf(kj::StringPtr protocol, kj::StringPtr family) {
  return protocol.startsWith(family);
}

bool isIpv6(kj::StringPtr protocol) {
  return protocol.endsWith("6");
}

// Returns true for a socket that the flags select. If no flag of a group is set, the whole group is
// selected.
bool isSelected(const SocketView& view, rpc::Socket::Reader socket) {
  auto protocol = socket.getProtocol();
  bool listens = socket.getState() == "LISTEN" || socket.getState() == "";
  if (view.listening && !listens) return false;
  if (!view.listening && !view.all && listens) return false;
  if (view.ipv4 != view.ipv6 && view.ipv6 != isIpv6(protocol)) return false;
  if (!view.tcp && !view.udp && !view.udpLite && !view.raw) return true;
  return (view.tcp && isOf(protocol, "tcp")) || (view.udp && isOf(protocol, "udp")) ||
         (view.udpLite && isOf(protocol, "udplite")) || (view.raw && isOf(protocol, "raw"));
}

kj::String socketAddress(kj::StringPtr protocol, kj::StringPtr address, uint16_t port) {
  auto shown = port == 0 ? kj::str("*") : kj::str(port);
  return isIpv6(protocol) ? kj::str("[", address, "]:", shown) : kj::str(address, ":", shown);
}

SocketView viewOf(const Invocation& call) {
  SocketView view;
  view.all = call.on("all");
  view.listening = call.on("listening");
  view.tcp = call.on("tcp"), view.udp = call.on("udp"), view.raw = call.on("raw");
  view.udpLite = call.on("udplite");
  view.ipv4 = call.on("ipv4"), view.ipv6 = call.on("ipv6");
  view.extend = call.on("extend");
  view.programs = call.on("programs");
  view.pods = call.on("pods");
  return view;
}

// Returns any process of the pod: its processes share a network namespace.
kj::Promise<int32_t> processOf(rpc::Node::Client node, kj::StringPtr pod) {
  auto request = node.containersRequest().send().getContainers().listRequest();
  request.setKubernetes(true);
  auto answer = co_await request.send();
  for (auto container : answer.getContainers()) {
    if (container.getPid() == 0) continue;
    if (container.getId() == pod || container.getPodId() == pod) {
      co_return static_cast<int32_t>(container.getPid());
    }
  }
  fail(ErrorKind::kNotFound,
       kj::str("there is no pod \"", pod, "\"; use \"containers -k\" to see those that run"));
}

struct NetworkSockets {
  kj::String pod;  // empty: the node's own network, or the network of the pod that the user names
  capnp::Response<Sockets> answer;
};
using NodeSockets = kj::Vector<NetworkSockets>;

kj::Promise<NodeSockets> askOne(rpc::Node::Client node, kj::StringPtr pod) {
  int32_t process = 0;
  if (pod.size() > 0) process = co_await processOf(node, pod);
  auto request = node.machineRequest().send().getMachine().netstatRequest();
  request.setProcess(process);
  NodeSockets sockets;
  sockets.add(NetworkSockets{{}, co_await request.send()});
  co_return kj::mv(sockets);
}

kj::Promise<NodeSockets> askWithPods(rpc::Node::Client node) {
  auto sockets = co_await askOne(node, "");
  auto networks = co_await podNetworks(node);
  for (size_t first = 0; first < networks.size(); first += kPodsAtOnce) {
    auto part = networks.asPtr().slice(first, kj::min(first + kPodsAtOnce, networks.size()));
    auto pending = KJ_MAP(network, part) {
      return podSockets(node, network.process);
    };
    auto answers = co_await kj::joinPromises(kj::mv(pending));
    for (auto i : kj::indices(answers)) {
      KJ_IF_MAYBE (answer, answers[i]) {
        sockets.add(NetworkSockets{kj::mv(part[i].pod), kj::mv(*answer)});
      }
    }
  }
  co_return kj::mv(sockets);
}

void printSockets(Invocation& call, kj::ArrayPtr<const NodeValue<NodeSockets>> nodes) {
  kj::Vector<SocketsReply> replies;
  for (auto& node : nodes) {
    for (auto& network : node.value) {
      replies.add(SocketsReply{node.node, network.pod, network.answer});
      auto leftOut = network.answer.getLeftOut();
      if (leftOut == 0) continue;
      auto ofPod = network.pod.size() > 0 ? kj::str(": pod ", network.pod) : kj::str();
      call.err(kj::str("WARNING: ", node.node, ofPod, ": ", leftOut,
                       " more sockets did not fit the answer\n"));
    }
  }
  if (replies.size() > 0) outTable(call, renderSockets(replies, viewOf(call)));
}

void printDocuments(Invocation& call, const NodeValues<NodeSockets>& values) {
  Documents documents(call, formatOf(call));
  for (auto& node : values.good) {
    for (auto& network : node.value) {
      auto value = dynamic<Sockets>(network.answer);
      if (network.pod.size() == 0) {
        documents.answer(node.node, value);
      } else {
        documents.answerOfPod(node.node, network.pod, value);
      }
    }
  }
  for (auto& failure : values.failures) documents.failure(failure);
}

kj::Promise<int> runNetstat(Invocation& call) {
  auto pod = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : ""_kj;
  if (pod.size() > 0 && pod.findFirst('/') == nullptr) {
    failUsage(kj::str("\"", pod, "\" is not a valid pod; use <namespace>/<pod>"));
  }
  bool ofPods = call.on("pods");
  if (ofPods && pod.size() > 0) failUsage("use --pods or name a pod, not both");
  auto session = co_await openSession(call);
  auto values = co_await gather<NodeSockets>(*session, [&](rpc::Node::Client node) {
    return ofPods ? askWithPods(kj::mv(node)) : askOne(kj::mv(node), pod);
  });
  if (formatOf(call) == Format::kTable) {
    printSockets(call, values.good);
  } else {
    printDocuments(call, values);
  }
  co_return conclude(call, values.failures, values.good.size(), Partial::kIsSuccess);
}

}  // namespace

kj::String renderSockets(kj::ArrayPtr<const SocketsReply> replies, const SocketView& view) {
  kj::Vector<kj::StringPtr> header;
  for (auto name : {"NODE"_kj, "PROTO"_kj, "RECV-Q"_kj, "SEND-Q"_kj, "LOCAL ADDRESS"_kj,
                    "FOREIGN ADDRESS"_kj, "STATE"_kj}) {
    header.add(name);
  }
  if (view.extend) header.add("UID"), header.add("INODE");
  if (view.programs) header.add("PID/PROGRAM");
  if (view.pods) header.add("POD");
  Table table(header.asPtr());
  for (auto& r : replies) {
    for (auto s : r.value.getSockets()) {
      if (!isSelected(view, s)) continue;
      kj::Vector<kj::String> row;
      row.add(kj::str(r.node));
      row.add(kj::str(s.getProtocol()));
      row.add(kj::str(s.getReceiveQueue()));
      row.add(kj::str(s.getSendQueue()));
      row.add(socketAddress(s.getProtocol(), s.getLocalAddress(), s.getLocalPort()));
      row.add(socketAddress(s.getProtocol(), s.getRemoteAddress(), s.getRemotePort()));
      row.add(kj::str(s.getState()));
      if (view.extend) row.add(kj::str(s.getUid())), row.add(kj::str(s.getInode()));
      if (view.programs) {
        row.add(s.getPid() == 0 ? kj::str("-") : kj::str(s.getPid(), "/", s.getProgram()));
      }
      if (view.pods) row.add(kj::str(r.pod.size() == 0 ? "-"_kj : r.pod));
      table.row(row.releaseAsArray());
    }
  }
  return table.render();
}

void addNetstatCommands(Command& root) {
  auto& netstat = root.add("netstat", "List the sockets of nodes, or of pods");
  netstat.aliases = {"ss"};
  netstat.arguments = "[<namespace>/<pod>]";
  netstat.most = 1;
  netstat.details =
      "Without --all or --listening: connected sockets. With --pods, those of every pod that has a "
      "network of its own follow those of the node, which have no pod. The flags select the rows "
      "of the table; yaml and json have every socket.";
  netstat.flag({.name = "all", .letter = "a", .help = "show listening sockets as well"});
  netstat.flag({.name = "listening", .letter = "l", .help = "show listening sockets only"});
  netstat.flag({.name = "tcp", .letter = "t", .help = "TCP"});
  netstat.flag({.name = "udp", .letter = "u", .help = "UDP and UDP-Lite"});
  netstat.flag({.name = "udplite", .letter = "U", .help = "UDP-Lite"});
  netstat.flag({.name = "raw", .letter = "w", .help = "raw IP"});
  netstat.flag({.name = "ipv4", .letter = "4", .help = "IPv4 only"});
  netstat.flag({.name = "ipv6", .letter = "6", .help = "IPv6 only"});
  netstat.flag({.name = "extend", .letter = "x", .help = "show user and inode"});
  netstat.flag({.name = "pods", .letter = "k", .help = "show the sockets of all pods as well"});
  netstat.flag({.name = "programs", .letter = "p", .help = "show process and program"});
  addOutputFlag(netstat);
  netstat.run = runNetstat;
}

}  // namespace talos::talosctl
