// Answers of a hostile node to apid, for a client of Talos' API: any message as the answer
// to any method, and as the node's calls of a sink; most are right answers that are damaged. The
// client gets a protobuf message of bounded size.
// link: apid-grpc
#include <capnp/dynamic.h>
#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

#include "apid/grpc/grpc-api.h"
#include "common/base/error.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/meta-resources.capnp.h"
#include "tests/fuzz/fuzz-target.h"
#include "tests/testbeds/conversation.h"

namespace {

using namespace talos;
using capnp::DynamicCapability;
using capnp::DynamicStruct;
using capnp::InterfaceSchema;
using capnp::MallocMessageBuilder;

// --- right answers, of which the bytes that are tried are made ---

using Fill = void (*)(MallocMessageBuilder&);

void fillCounters(MallocMessageBuilder& message) {
  auto files = message.initRoot<rpc::Machine::CountersResults>().initFiles(2);
  files[0].setPath("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  files[1].setPath("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  files[0].setText("2000000\n");
  files[1].setText("powersave\n");
}
void fillText(MallocMessageBuilder& message) {
  message.initRoot<rpc::Machine::CountersResults>().initFiles(1)[0].setText(
      "cpu  1 2 3 4 5 6 7 8 9 10\nintr 3 1 2\nprocessor\t: 0\nflags\t: a b\ncpu MHz: 1.5\n"
      "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
      "softirq 55 1 2 3 4 5 6 7 8 9 10\n0.50 1.25 2.00 1/123 4567\nbtime 5\n");
}
void fillMetadata(rpc::Resource::Builder resource, kj::StringPtr type) {
  auto metadata = resource.initMetadata();
  metadata.setNamespace("meta");
  metadata.setType(type);
  metadata.setId("one");
  metadata.setVersion(3);
  metadata.setCreated(1'000'000'000);
  metadata.initFinalizers(1).set(0, "held");
}
void fillDefinition(rpc::Resource::Builder resource) {
  fillMetadata(resource, "ResourceDefinitions.meta.cosi.dev");
  auto spec = resource.initSpec().initAs<rpc::ResourceDefinitionSpec>();
  spec.setType("Services.v1alpha1.talos.dev");
  spec.initAliases(2).set(0, "svc");
  spec.initPrintColumns(2)[0].setName("RUNNING");
}
void fillResource(MallocMessageBuilder& message) {
  fillDefinition(message.initRoot<rpc::Resources::GetResults>().initResource());
}
void fillResources(MallocMessageBuilder& message) {
  auto list = message.initRoot<rpc::Resources::ListResults>().initResources(3);
  fillDefinition(list[0]);
  fillMetadata(list[1], "MachineStatuses.runtime.talos.dev");
  auto status = list[1].initSpec().initAs<rpc::MachineStatusSpec>();
  status.setStage("running");
  status.initProblems(1).set(0, "service etcd is not healthy");
  fillMetadata(list[2], "unknown");
}
void fillMounts(MallocMessageBuilder& message) {
  auto mounts = message.initRoot<rpc::Machine::MountsResults>().initMounts(2);
  mounts[0].setFilesystem("/dev/vda5");
}
void fillMemory(MallocMessageBuilder& message) {
  auto fields = message.initRoot<rpc::Machine::MemoryResults>().initFields(2);
  fields[0].setName("Active(anon)");
  fields[0].setValue(5);
}
void fillBytes(MallocMessageBuilder& message) {
  message.initRoot<rpc::ByteSink::WriteParams>().setBytes("one\ntwo\n"_kj.asBytes());
}
constexpr Fill kRight[] = {fillCounters, fillText,   fillResource, fillResources,
                           fillMounts,   fillMemory, fillBytes};

// --- the node ---

struct Node {
  kj::Array<capnp::word> words;
  unsigned calls = 0;
  kj::Vector<kj::Promise<void>> writes;  // to sinks

  // Calls `use` with a new reader each time, with the limits of a connection.
  template <typename Use>
  void read(Use&& use) {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4u << 20;
    capnp::FlatArrayMessageReader message(words, options);
    use(message.getRoot<capnp::AnyPointer>());
  }
};

class HostileCapability final : public DynamicCapability::Server {
 public:
  HostileCapability(InterfaceSchema schema, Node& node)
      : DynamicCapability::Server(schema, {.allowCancellation = true}), node(node) {}

  kj::Promise<void> call(InterfaceSchema::Method method,
                         capnp::CallContext<DynamicStruct, DynamicStruct> context) override {
    KJ_REQUIRE(++node.calls < 100, "enough");
    for (auto field : method.getParamType().getFields()) {
      if (field.getType().isInterface()) write(context.getParams().get(field));
    }
    if (method.isStreaming()) return kj::READY_NOW;
    node.read([&](capnp::AnyPointer::Reader answer) {
      context.setResults(answer.getAs<DynamicStruct>(method.getResultType()));
    });
    for (auto field : method.getResultType().getFields()) {
      if (!field.getType().isInterface()) continue;
      DynamicCapability::Client next =
          kj::heap<HostileCapability>(field.getType().asInterface(), node);
      context.getResults().set(field, next);
    }
    return kj::READY_NOW;
  }

 private:
  Node& node;

  void write(const capnp::DynamicValue::Reader& sink) {
    auto client = sink.as<DynamicCapability>();
    for (unsigned round = 0; round < 2; ++round) {
      for (auto method : client.getSchema().getMethods()) {
        auto request = client.newRequest(method);
        node.read([&](capnp::AnyPointer::Reader params) {
          auto from = params.getAs<DynamicStruct>(method.getParamType());
          for (auto field : method.getParamType().getFields()) {
            if (!field.getType().isInterface()) request.set(field, from.get(field));
          }
        });
        auto sent = method.isStreaming() ? request.sendStreaming() : request.send().ignoreResult();
        node.writes.add(sent.eagerlyEvaluate([](kj::Exception&&) {}));
      }
    }
  }
};

// --- the client ---

class AnyCall final : public grpc::GrpcCall {
 public:
  AnyCall(kj::StringPtr to, bool waits) : to(to), waits(waits) {}
  kj::StringPtr path() const override { return to; }
  kj::ArrayPtr<const kj::String> metadata(kj::StringPtr) const override { return nullptr; }
  kj::Promise<void> nearDeadline() override { return kj::NEVER_DONE; }
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> receive() override {
    // A type that exists and an id, in the fields of both APIs of resources.
    constexpr kj::StringPtr kRequest =
        "\x0a\x04meta\x12\x21ResourceDefinitions.meta.cosi.dev\x1a\x03one"_kj;
    if (received) return kj::Maybe<kj::Array<kj::byte>>(nullptr);
    received = true;
    constexpr size_t kKind = 41;  // of it, without the id: a list's third field is another one
    bool resources = to.startsWith("/cosi.") || to.startsWith("/resource.");
    auto size = !resources ? 0 : to.endsWith("List") ? kKind : kRequest.size();
    return kj::Maybe<kj::Array<kj::byte>>(kj::heapArray(kRequest.asBytes().slice(0, size)));
  }
  void begin() override {}
  kj::Promise<void> send(kj::Array<kj::byte> message) override {
    // An exception would be the status of the call.
    valid = valid && message.size() <= grpcapi::WireWriter::kMost &&
            kj::runCatchingExceptions([&]() {
              grpcapi::WireReader fields(message);
              while (fields.next() != nullptr) {
              }
            }) == nullptr;
    if (waits) return kj::NEVER_DONE;
    return kj::READY_NOW;
  }

  bool valid = true;  // all messages were

 private:
  kj::StringPtr to;
  bool waits, received = false;
};

}  // namespace

namespace {

// The status of a call whose node answers so. With `waits` the client reads nothing.
kj::uint ask(const grpcapi::GrpcApi& api, kj::StringPtr path, kj::ArrayPtr<const kj::byte> bytes,
             bool waits) {
  Node node;
  node.words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  memcpy(node.words.begin(), bytes.begin(), node.words.asBytes().size());
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  Budget budget({.perClient = 32u << 20, .inTotal = 96u << 20});
  DynamicCapability::Client cluster =
      kj::heap<HostileCapability>(capnp::Schema::from<rpc::Cluster>(), node);
  grpc::GrpcStatus status;
  {
    auto handler = api.open(timer, cluster.castAs<rpc::Cluster>(), budget.account("reader"));
    AnyCall call(path, waits);
    auto answer = kj::evalNow([&]() { return handler->call(call); })
                      .then([&](grpc::GrpcStatus&& s) { status = kj::mv(s); },
                            [&](kj::Exception&& e) { status = grpc::statusOf(e); })
                      .eagerlyEvaluate(nullptr);
    KJ_ASSERT(scope.poll(1'000'000) < 1'000'000, "the call does not come to rest", path);
    KJ_ASSERT(call.valid, "a message that is none, or has no bound", path);
    KJ_ASSERT(status.code <= 16 && status.message.size() <= 16'384, path);
  }
  scope.poll();
  node.writes.clear();
  return status.code;
}

kj::ArrayPtr<const kj::byte> right(size_t kind) {
  static const auto all = KJ_MAP(fill, kRight) {
    MallocMessageBuilder message;
    fill(message);
    return kj::heapArray(capnp::messageToFlatArray(message).asBytes());
  };
  return all[kind % all.size()];
}

}  // namespace

FUZZ_TARGET(nodeanswer) {
  static grpcapi::GrpcApi api;
  static bool checked = [] {
    for (kj::StringPtr path :
         {"/machine.MachineService/SystemStat"_kj, "/machine.MachineService/CPUInfo"_kj}) {
      KJ_ASSERT(ask(api, path, right(1), false) == 0, "what is damaged must be right", path);
    }
    KJ_ASSERT(ask(api, "/cosi.resource.State/Get", right(2), false) == 0);
    KJ_ASSERT(ask(api, "/cosi.resource.State/List", right(3), false) == 0);
    KJ_ASSERT(ask(api, "/machine.MachineService/Memory", right(5), false) == 0);
    return true;
  }();
  (void)checked;
  if (size < 2) return 0;
  auto entries = api.entries();
  auto& entry = entries[data[0] % entries.size()];
  auto bytes = testbeds::hostileBytes(right(data[1] >> 1), kj::arrayPtr(data + 2, size - 2));
  ask(api, entry.path, bytes, data[1] & 1);
  return 0;
}
