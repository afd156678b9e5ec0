// The methods Memory, Netstat, ControllerRuntimeDependencies, and the methods for kernel counters.
#include <kj/map.h>

#include "apid/grpc/kernel-counters.h"
#include "apid/grpc/method-table.h"
#include "common/grpc-messages/message-shape.h"
#include "common/grpc-messages/request-fields.h"
#include "common/text/ascii.h"
#include "common/wire/pod-networks.h"

namespace talos::grpcapi {
namespace {

// --- Memory ---

// The fields of MemInfo in the order of their numbers, from 1.
constexpr kj::StringPtr kMemoryNames[] = {"memtotal"_kj,
                                          "memfree"_kj,
                                          "memavailable"_kj,
                                          "buffers"_kj,
                                          "cached"_kj,
                                          "swapcached"_kj,
                                          "active"_kj,
                                          "inactive"_kj,
                                          "activeanon"_kj,
                                          "inactiveanon"_kj,
                                          "activefile"_kj,
                                          "inactivefile"_kj,
                                          "unevictable"_kj,
                                          "mlocked"_kj,
                                          "swaptotal"_kj,
                                          "swapfree"_kj,
                                          "dirty"_kj,
                                          "writeback"_kj,
                                          "anonpages"_kj,
                                          "mapped"_kj,
                                          "shmem"_kj,
                                          "slab"_kj,
                                          "sreclaimable"_kj,
                                          "sunreclaim"_kj,
                                          "kernelstack"_kj,
                                          "pagetables"_kj,
                                          "nfsunstable"_kj,
                                          "bounce"_kj,
                                          "writebacktmp"_kj,
                                          "commitlimit"_kj,
                                          "committedas"_kj,
                                          "vmalloctotal"_kj,
                                          "vmallocused"_kj,
                                          "vmallocchunk"_kj,
                                          "hardwarecorrupted"_kj,
                                          "anonhugepages"_kj,
                                          "shmemhugepages"_kj,
                                          "shmempmdmapped"_kj,
                                          "cmatotal"_kj,
                                          "cmafree"_kj,
                                          "hugepagestotal"_kj,
                                          "hugepagesfree"_kj,
                                          "hugepagesrsvd"_kj,
                                          "hugepagessurp"_kj,
                                          "hugepagesize"_kj,
                                          "directmap4k"_kj,
                                          "directmap2m"_kj,
                                          "directmap1g"_kj};
static_assert(kj::size(kMemoryNames) == 48);

// Converts "Active(anon)" to activeanon.
kj::String plainName(kj::StringPtr name) {
  kj::Vector<char> out;
  for (auto c : lowerCase(name)) {
    if (isLower(c) || isDigit(c)) out.add(c);
  }
  return kj::heapString(out.asPtr());
}

class Memory final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes, Output& output) const override {
    auto machine = node.machineRequest().send().getMachine();
    auto response = co_await machine.memoryRequest().send();
    uint64_t values[kj::size(kMemoryNames)] = {};
    for (auto field : itemsOf(response.getFields())) {
      auto name = plainName(field.getName());
      for (auto i : kj::indices(kMemoryNames)) {
        if (kMemoryNames[i] == name) values[i] = field.getValue();
      }
    }
    WireWriter memory, out;
    for (auto i : kj::indices(values)) {
      if (values[i] != 0) memory.varint(i + 1, values[i]);
    }
    out.bytes(2, memory.written());
    co_await output.send(out.finish());
  }
};

// --- Netstat ---

// The sockets that a client requests.
struct SocketFilter {
  enum Which : uint64_t { kAll, kConnected, kListening };
  uint64_t which;
  kj::Vector<kj::StringPtr> protocols;  // empty: all

  explicit SocketFilter(const RequestFields& request) : which(request.number(1)) {
    constexpr kj::StringPtr kProtocols[] = {"tcp"_kj,     "tcp6"_kj,     "udp"_kj, "udp6"_kj,
                                            "udplite"_kj, "udplite6"_kj, "raw"_kj, "raw6"_kj};
    auto wanted = request.in(3);
    for (auto i : kj::indices(kProtocols)) {
      if (wanted.flag(i + 1)) protocols.add(kProtocols[i]);
    }
  }
  bool admits(rpc::Socket::Reader socket) const {
    bool connected = socket.getRemotePort() != 0;
    if (which == kConnected && !connected) return false;
    if (which == kListening && connected) return false;
    for (auto protocol : protocols) {
      if (protocol == socket.getProtocol()) return true;
    }
    return protocols.empty();
  }
};

// The networks whose sockets a client requests; the node's network if the client names none.
struct NetworkFilter {
  bool ofNode = true, ofAllPods = false;
  kj::HashSet<kj::String> names;

  explicit NetworkFilter(const RequestFields& request) {
    if (!request.has(4)) return;
    auto wanted = request.in(4);
    ofNode = wanted.flag(1);
    ofAllPods = wanted.flag(3);
    wanted.each(2, kMostItems, [&](const WireField& field) {
      auto name = textOf(field);
      if (!names.contains(name)) names.insert(kj::mv(name));
    });
  }
  bool ofPods() const { return ofAllPods || names.size() > 0; }
};

class Netstat final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    SocketFilter filter(request);
    NetworkFilter wanted(request);
    Records records;
    if (wanted.ofNode) {
      auto machine = node.machineRequest().send().getMachine();
      auto response = co_await machine.netstatRequest().send();
      add(records, response, filter, "");
    }
    if (wanted.ofPods()) co_await addPods(node, wanted, filter, records, output);
    co_await output.send(records.out.finish());
    if (records.leftOut == 0) co_return;
    co_await output.sendProblem(
        error(ErrorKind::kResourceExhausted,
              kj::str("the node has ", records.leftOut, " more sockets than an answer holds (",
                      records.listed, "); they are not in this list")));
  }

 private:
  struct Records {
    WireWriter out;
    uint64_t listed = 0, leftOut = 0;
  };
  Shape shape{
      "1:protocol 2:localAddress 3:localPort 4:remoteAddress 5:remotePort 6:state~tcpState "
      "7:sendQueue 8:receiveQueue 12:uid 14:inode 17!{1:pid 2:program}",
      capnp::Schema::from<rpc::Socket>()};

  kj::Promise<void> addPods(rpc::Node::Client node, NetworkFilter& wanted,
                            const SocketFilter& filter, Records& records, Output& output) const {
    auto request = node.containersRequest().send().getContainers().listRequest();
    request.setKubernetes(true);
    auto response = co_await request.send();
    auto charge = output.charge(response.totalSize());
    auto networks = co_await podNetworks(node, response.getContainers());
    // Sequential, so that only one answer of the node is kept at a time.
    for (auto& network : networks) {
      bool isNamed = wanted.names.eraseMatch(network.name);
      if (!isNamed && !wanted.ofAllPods) continue;
      auto sockets = co_await podSockets(node, network.process);
      KJ_IF_MAYBE (answer, sockets) add(records, *answer, filter, network.name);
    }
    for (auto& name : wanted.names) {
      fail(ErrorKind::kNotFound, kj::str("no pod has the network namespace \"", name, "\""));
    }
  }

  // `network`: empty for the node's network.
  void add(Records& records, rpc::Machine::NetstatResults::Reader answer,
           const SocketFilter& filter, kj::StringPtr network) const {
    auto sockets = itemsOf(answer.getSockets());
    records.listed += sockets.size();
    records.leftOut += answer.getLeftOut();
    for (auto socket : sockets) {
      if (!filter.admits(socket)) continue;
      WireWriter record;
      shape.encode(capnp::DynamicStruct::Reader(socket), record);
      if (network.size() > 0) record.text(18, network);
      records.out.bytes(2, record.written());
    }
  }
};

// --- ControllerRuntimeDependencies ---

class Dependencies final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes, Output& output) const override {
    auto machine = node.machineRequest().send().getMachine();
    auto response = co_await machine.dependenciesRequest().send();
    WireWriter out;
    size_t items = 0;
    for (auto controller : itemsOf(response.getControllers())) {
      checkItems(items += size_t(controller.getWrites().size()) + controller.getReads().size());
      for (auto type : controller.getWrites())
        add(out, controller.getName(), kExclusive, "", type, "");
      for (auto input : controller.getReads()) {
        add(out, controller.getName(), kWeak, input.getNamespace(), input.getType(), input.getId());
      }
    }
    co_await output.send(out.finish());
  }

 private:
  // Kinds of items: of an output, and of an input that is not awaited.
  static constexpr uint64_t kExclusive = 0, kWeak = 2;

  static void add(WireWriter& out, kj::StringPtr controller, uint64_t kind, kj::StringPtr space,
                  kj::StringPtr type, kj::StringPtr id) {
    WireWriter edge;
    edge.text(1, controller);
    if (kind != 0) edge.varint(2, kind);
    if (space.size() > 0) edge.text(3, space);
    edge.text(4, type);
    if (id.size() > 0) edge.text(5, id);
    out.bytes(2, edge.written());
  }
};

// --- kernel counters ---

class Counters final : public Method {
 public:
  using Files = capnp::List<rpc::CounterFile>::Reader;
  using Read = kj::Array<kj::byte> (*)(Files);
  Counters(rpc::Counter which, Read read) : which(which), read(read) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes, Output& output) const override {
    auto request = node.machineRequest().send().getMachine().countersRequest();
    request.setOf(which);
    auto response = co_await request.send();
    co_await output.send(read(response.getFiles()));
  }

 private:
  rpc::Counter which;
  Read read;
};

// Reads a single file.
template <kj::Array<kj::byte> (*read)(kj::ArrayPtr<const char>)>
kj::Array<kj::byte> ofText(Counters::Files files) {
  if (files.size() != 1) fail(ErrorKind::kInternal, "the node has not sent the file's text");
  return read(files[0].getText());
}

}  // namespace

void addFacts(kj::Vector<Entry>& all) {
  all.add(Entry{"/machine.MachineService/Memory", Answer::kMerged, kj::heap<Memory>()});
  all.add(Entry{"/machine.MachineService/Netstat", Answer::kMerged, kj::heap<Netstat>()});
  all.add(Entry{"/inspect.InspectService/ControllerRuntimeDependencies", Answer::kMerged,
                kj::heap<Dependencies>()});
  auto count = [&](kj::StringPtr path, rpc::Counter which, Counters::Read read) {
    all.add(Entry{path, Answer::kMerged, kj::heap<Counters>(which, read)});
  };
  using Of = rpc::Counter;
  count("/machine.MachineService/LoadAvg", Of::LOAD, ofText<loadAverage>);
  count("/machine.MachineService/SystemStat", Of::SYSTEM, ofText<systemStat>);
  count("/machine.MachineService/CPUInfo", Of::PROCESSORS, ofText<processorInfo>);
  count("/machine.MachineService/NetworkDeviceStats", Of::NETWORK, ofText<networkStats>);
  count("/machine.MachineService/DiskStats", Of::DISKS, ofText<diskStats>);
  count("/machine.MachineService/CPUFreqStats", Of::FREQUENCIES, frequencies);
}

}  // namespace talos::grpcapi
