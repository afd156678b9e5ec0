// The methods ApplyConfiguration, GenerateConfiguration, GenerateClientConfiguration, Reset and
// BlockDeviceWipe.
#include "apid/grpc/method-table.h"
#include "common/base/fill-list.h"
#include "common/grpc-messages/field-transforms.h"
#include "common/grpc-messages/message-shape.h"
#include "common/grpc-messages/request-fields.h"
#include "common/talosconfig/talosconfig.h"
#include "common/tls/pki.h"

namespace talos::grpcapi {
namespace {

// Limits of lists in requests: more than all roles, partitions and disks.
constexpr size_t kMostRoles = 64, kMostLabels = 64, kMostDevices = 256;

constexpr int64_t kMillisecond = 1'000'000, kWholeSecond = 1'000'000'000;

// --- ApplyConfiguration ---

// Talos' modes, by their numbers.
constexpr struct {
  rpc::ApplyMode mode;
  kj::StringPtr done;  // printed by Talos' clients, and matched by scripts
} kModes[] = {
    {rpc::ApplyMode::REBOOT, "Applied configuration with a reboot"_kj},
    {rpc::ApplyMode::AUTO, ""_kj},
    {rpc::ApplyMode::NO_REBOOT, "Applied configuration without a reboot"_kj},
    {rpc::ApplyMode::STAGED, "Staged configuration to be applied after the next reboot"_kj},
    {rpc::ApplyMode::TRY, "The config is applied in 'try' mode and will be reverted"_kj},
};

// Returns the mode by one rule for clients of all releases: those of 0.9 have two flags and no
// mode.
rpc::ApplyMode modeOf(const RequestFields& request) {
  if (request.flag(3)) return rpc::ApplyMode::NO_REBOOT;
  if (request.flag(2)) return rpc::ApplyMode::STAGED;
  auto number = request.number(4);
  if (number >= kj::size(kModes)) {
    fail(ErrorKind::kInvalidArgument, kj::str(number, " is not a mode of applying a config"));
  }
  return kModes[number].mode;
}

kj::String detailsOf(rpc::ApplyResult::Reader result, bool dryRun) {
  kj::StringPtr done;
  for (auto& mode : kModes) {
    if (mode.mode == result.getMode()) done = mode.done;
  }
  auto text = result.getMode() == rpc::ApplyMode::TRY
                  ? kj::str(done, " in ", result.getRevertsInMs() / 1000, "s")
                  : kj::str(done);
  if (!dryRun) return text;
  return kj::str("Dry run summary:\n", text, " (skipped in dry-run).\nConfig diff:\n\n",
                 result.getDiff());
}

class ApplyConfiguration final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    auto call = node.configurationRequest().send().getConfiguration().applyRequest();
    auto apply = call.initRequest();
    apply.setDocument(request.bytes(1));
    apply.setMode(modeOf(request));
    bool dryRun = request.flag(5);
    apply.setDryRun(dryRun);
    if (request.has(6)) {
      apply.setTryTimeoutMs(kj::max(nanosecondsOf(request.bytes(6)) / kMillisecond, int64_t(0)));
    }
    auto response = co_await call.send();
    auto result = response.getResult();
    WireWriter out;
    for (auto warning : itemsOf(result.getWarnings())) out.text(2, warning);
    for (auto missing : itemsOf(result.getNotInEffect())) {
      out.text(2, kj::str("not in effect: ", missing));
    }
    if (result.getTrialMs() > 0 && !dryRun) {
      out.text(2,
               kj::str("the config is on trial for ", result.getTrialMs() / 60'000,
                       " min: the one before comes back unless the node does again what it did"));
    }
    for (auto i : kj::indices(kModes)) {
      if (kModes[i].mode == result.getMode() && i > 0) out.varint(3, i);
    }
    out.text(4, detailsOf(result, dryRun));
    co_await output.send(out.finish());
  }
};

// --- GenerateConfiguration ---

class GenerateConfiguration final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    auto call = node.configurationRequest().send().getConfiguration().generateRequest();
    in.decode(message, capnp::DynamicStruct::Builder(call.getRequest()));
    auto wanted = documentOf(RequestFields(message).in(3).number(1));
    auto response = co_await call.send();
    WireWriter out;
    for (auto document : itemsOf(response.getDocuments())) {
      if (document.getName() == wanted) out.bytes(2, document.getContent());
      if (document.getName() == "talosconfig") out.bytes(3, document.getContent());
    }
    co_await output.send(out.finish());
  }

 private:
  Shape in{
      "2{1:clusterName 2{1:endpoint} 3{1:dnsDomain 2^network 3^network} 4^scheduling} "
      "3{2{1:installDisk 2:installImage} 3^network 4:kubernetesVersion}",
      capnp::Schema::from<rpc::GenerateRequest>()};

  static kj::StringPtr documentOf(uint64_t machineType) {
    switch (machineType) {
      case 1:
        return "init.yaml";
      case 2:
        return "controlplane.yaml";
      case 3:
        return "join.yaml";
    }
    fail(ErrorKind::kInvalidArgument, kj::str(machineType, " is not a type of machine"));
  }
};

// --- GenerateClientConfiguration ---

// This node makes the key and sends it to the client only: buffers that it passes through are
// zeroed when they are freed (common/memory).
class GenerateClientConfiguration final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    kj::Vector<kj::String> roles;
    request.each(1, kMostRoles, [&](const WireField& field) { roles.add(textOf(field)); });
    auto call = node.machineRequest().send().getMachine().clientCertificateRequest();
    Context context;
    if (co_await isAdmin(node)) {
      context.key = pki::makeKey(pki::KeyType::kEd25519);
      call.setRequest(pki::makeRequest(context.key, {}).asBytes());
    }
    fillTexts(call.initRoles(roles.size()), roles);
    call.setLifetimeS(kj::max(nanosecondsOf(request.bytes(2)) / kWholeSecond, int64_t(0)));
    auto response = co_await call.send();
    context.ca = kj::heapString(response.getCa().asChars());
    context.certificate = kj::heapString(response.getCertificate().asChars());
    WireWriter out;
    out.bytes(2, context.ca.asBytes());
    out.bytes(3, context.certificate.asBytes());
    out.bytes(4, context.key.bytes());
    Talosconfig made;
    made.add("default", kj::mv(context));
    out.text(5, made.toYaml());
    co_await output.send(out.finish());
  }

 private:
  // Returns false for other callers, for whom no key is made: their call is then refused, and
  // recorded, without a key.
  static kj::Promise<bool> isAdmin(rpc::Node::Client node) {
    return node.sensitiveResourcesRequest().send().ignoreResult().then(
        [] { return true; }, [](kj::Exception&&) { return false; });
  }
};

// --- Reset ---

class Reset final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    RequestFields request(message);
    constexpr uint64_t kUserDisks = 2;
    if (request.has(4) || request.number(5) == kUserDisks) {
      fail(ErrorKind::kUnimplemented, "erasing user disks is not supported");
    }
    kj::Vector<kj::String> labels;
    request.each(3, kMostLabels, [&](const WireField& field) {
      RequestFields partition(field.bytes);
      if (partition.flag(2)) labels.add(partition.text(1));
    });
    // Without labels the reset would erase the whole disk, although the client named partitions.
    if (request.has(3) && labels.empty()) {
      fail(ErrorKind::kInvalidArgument, "none of the partitions has wipe set");
    }
    auto call = node.machineRequest().send().getMachine().resetRequest();
    call.setGraceful(request.flag(1));
    call.setReboot(request.flag(2));
    fillTexts(call.initLabels(labels.size()), labels);
    co_await call.send().ignoreResult();
    co_await output.send(nullptr);
  }
};

// --- BlockDeviceWipe ---

class WipeDevices final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    kj::Vector<kj::String> devices;
    size_t zeroed = 0;
    RequestFields(message).each(1, kMostDevices, [&](const WireField& field) {
      RequestFields device(field.bytes);
      if (device.flag(3) || device.flag(5)) {
        fail(ErrorKind::kInvalidArgument, "what uses a device is always checked");
      }
      if (device.flag(4)) {
        fail(ErrorKind::kInvalidArgument, "wipe the disk to remove its partitions");
      }
      if (device.number(2) > 1) {
        fail(ErrorKind::kInvalidArgument,
             kj::str(device.number(2), " is not a method of wiping a device"));
      }
      zeroed += device.number(2);
      devices.add(device.text(1));
    });
    if (zeroed != 0 && zeroed != devices.size()) {
      fail(ErrorKind::kInvalidArgument, "wipe devices with one method at a time");
    }
    auto call = node.storageRequest().send().getStorage().wipeRequest();
    fillTexts(call.initDevices(static_cast<unsigned>(devices.size())), devices);
    call.setZeroes(zeroed > 0);
    co_await call.send().ignoreResult();
    co_await output.send(nullptr);
  }
};

}  // namespace

void addConfiguration(kj::Vector<Entry>& all) {
  auto add = [&](kj::StringPtr path, kj::Own<const Method> method) {
    all.add(Entry{path, Answer::kMerged, kj::mv(method)});
  };
  add("/machine.MachineService/ApplyConfiguration", kj::heap<ApplyConfiguration>());
  add("/machine.MachineService/GenerateConfiguration", kj::heap<GenerateConfiguration>());
  add("/machine.MachineService/GenerateClientConfiguration",
      kj::heap<GenerateClientConfiguration>());
  add("/machine.MachineService/Reset", kj::heap<Reset>());
  add("/storage.StorageService/BlockDeviceWipe", kj::heap<WipeDevices>());
}

}  // namespace talos::grpcapi
