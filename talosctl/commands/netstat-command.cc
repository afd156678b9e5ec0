// netstat
#include "common/base/error.h"
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

// True for a socket that the flags select. Without a flag of a kind: all of that kind.
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
  return view;
}

// A process of the pod; they share a network namespace.
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

kj::Promise<capnp::Response<Sockets>> askSockets(rpc::Node::Client node, kj::StringPtr pod) {
  int32_t process = 0;
  if (pod.size() > 0) process = co_await processOf(node, pod);
  auto request = node.machineRequest().send().getMachine().netstatRequest();
  request.setProcess(process);
  co_return co_await request.send();
}

kj::Promise<int> runNetstat(Invocation& call) {
  auto pod = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : ""_kj;
  if (pod.size() > 0 && pod.findFirst('/') == nullptr) {
    failUsage(kj::str("\"", pod, "\" is not a valid pod; use <namespace>/<pod>"));
  }
  return tabulate<Sockets>(
      call, [pod](rpc::Node::Client node) { return askSockets(kj::mv(node), pod); },
      [](Invocation& call, kj::ArrayPtr<const Reply<Sockets>> replies) {
        for (auto& r : replies) {
          if (r.value.getLeftOut() == 0) continue;
          call.err(kj::str("WARNING: ", r.node, ": ", r.value.getLeftOut(),
                           " more sockets did not fit the answer\n"));
        }
        return renderSockets(replies, viewOf(call));
      });
}

}  // namespace

kj::String renderSockets(kj::ArrayPtr<const Reply<Sockets>> replies, const SocketView& view) {
  kj::Vector<kj::StringPtr> header;
  for (auto name : {"NODE"_kj, "PROTO"_kj, "RECV-Q"_kj, "SEND-Q"_kj, "LOCAL ADDRESS"_kj,
                    "FOREIGN ADDRESS"_kj, "STATE"_kj}) {
    header.add(name);
  }
  if (view.extend) header.add("UID"), header.add("INODE");
  if (view.programs) header.add("PID/PROGRAM");
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
      table.row(row.releaseAsArray());
    }
  }
  return table.render();
}

void addNetstatCommands(Command& root) {
  auto& netstat = root.add("netstat", "List the sockets of nodes, or of a pod");
  netstat.aliases = {"ss"};
  netstat.arguments = "[<namespace>/<pod>]";
  netstat.most = 1;
  netstat.details =
      "Without --all or --listening: connected sockets. The flags select the rows of the table; "
      "yaml and json have every socket.";
  netstat.flag({.name = "all", .letter = "a", .help = "show listening sockets as well"});
  netstat.flag({.name = "listening", .letter = "l", .help = "show listening sockets only"});
  netstat.flag({.name = "tcp", .letter = "t", .help = "TCP"});
  netstat.flag({.name = "udp", .letter = "u", .help = "UDP and UDP-Lite"});
  netstat.flag({.name = "udplite", .letter = "U", .help = "UDP-Lite"});
  netstat.flag({.name = "raw", .letter = "w", .help = "raw IP"});
  netstat.flag({.name = "ipv4", .letter = "4", .help = "IPv4 only"});
  netstat.flag({.name = "ipv6", .letter = "6", .help = "IPv6 only"});
  netstat.flag({.name = "extend", .letter = "x", .help = "show user and inode"});
  netstat.flag({.name = "programs", .letter = "p", .help = "show process and program"});
  addOutputFlag(netstat);
  netstat.run = runNetstat;
}

}  // namespace talos::talosctl
