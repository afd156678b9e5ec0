#include "machined/config/controllers/inventory-controller.h"

#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/machine-inventory.h"
#include "machined/hardware/readings.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

struct Inventory {
  kj::Maybe<SystemInformation> system;
  kj::Vector<ProcessorPackage> processors;
  kj::Vector<PciDevice> devices;
  kj::Vector<NumaNode> nodes;
  kj::Vector<IommuGroup> groups;
  bool secure = false;
};

Inventory readInventory(InventoryPaths paths) {
  auto cpuinfo = tryReadFile(kj::str(paths.proc, "/cpuinfo")).orDefault(kj::String());
  return {.system = readSystemInformation(paths.sys),
          .processors = processorPackages(cpuinfo),
          .devices = readPciDevices(paths.sys),
          .nodes = readNumaNodes(paths.sys),
          .groups = readIommuGroups(paths.sys),
          .secure = bootedSecurely(paths.sys)};
}

void writeHardware(Store& store, kj::StringPtr owner, const Inventory& found) {
  Outputs<rpc::SystemInformationSpec> systems(owner);
  KJ_IF_MAYBE (system, found.system) {
    auto spec = systems.add("systeminformation");
    spec.setManufacturer(system->manufacturer);
    spec.setProductName(system->productName);
    spec.setVersion(system->version);
    spec.setSerialNumber(system->serialNumber);
    spec.setUuid(system->uuid);
    spec.setSkuNumber(system->skuNumber);
  }
  systems.apply(store);
  Outputs<rpc::ProcessorSpec> processors(owner);
  for (auto& package : found.processors) {
    auto id = kj::str("CPU-", package.socket);
    auto spec = processors.add(id);
    spec.setSocket(id);
    spec.setManufacturer(package.manufacturer);
    spec.setProductName(package.productName);
    spec.setCoreCount(package.cores);
    spec.setThreadCount(package.threads);
    spec.setMicrocode(package.microcode);
  }
  processors.apply(store);
  Outputs<rpc::PciDeviceSpec> devices(owner);
  for (auto& device : found.devices) {
    auto spec = devices.add(device.address);
    spec.setClassId(device.classId);
    spec.setSubclassId(device.subclassId);
    spec.setVendorId(device.vendorId);
    spec.setProductId(device.productId);
  }
  devices.apply(store);
}

void writeTopology(Store& store, kj::StringPtr owner, const Inventory& found) {
  Outputs<rpc::NumaNodeSpec> nodes(owner);
  for (auto& node : found.nodes) {
    auto spec = nodes.add(node.id);
    spec.setCpus(node.cpus);
    spec.setMemoryMiB(node.mebibytes);
    auto distances = spec.initDistances(node.distances.size());
    for (auto i : kj::indices(node.distances)) distances.set(i, node.distances[i]);
  }
  nodes.apply(store);
  Outputs<rpc::IommuGroupSpec> groups(owner);
  for (auto& group : found.groups) {
    auto spec = groups.add(group.id);
    spec.setType(group.type);
    fillTexts(spec.initDevices(group.devices.size()), group.devices);
  }
  groups.apply(store);
}

}  // namespace

kj::Array<kj::StringPtr> InventoryController::outputs() const {
  return typeNames<rpc::SecurityStateSpec, rpc::SystemInformationSpec, rpc::ProcessorSpec,
                   rpc::PciDeviceSpec, rpc::NumaNodeSpec, rpc::IommuGroupSpec,
                   rpc::DevicesStatusSpec, rpc::MetaLoadSpec, rpc::UniqueMachineTokenSpec>();
}

kj::Promise<void> InventoryController::reconcile(Store& store) {
  Inventory found;
  if (platform != "container") {
    found = co_await uv.blocking([paths = paths]() { return readInventory(paths); });
  }
  writeHardware(store, name(), found);
  writeTopology(store, name(), found);
  Outputs<rpc::SecurityStateSpec> security(name());
  auto state = security.add("securitystate");
  state.setSecureBoot(found.secure);
  state.setLandlock(static_cast<uint32_t>(landlock));
  auto missing = confine::Landlock::notRestricted(landlock);
  fillTexts(state.initUnrestricted(static_cast<unsigned>(missing.size())), missing);
  security.apply(store);
  Outputs<rpc::DevicesStatusSpec> devices(name());
  devices.add("devices").setReady(true);
  devices.apply(store);
  Outputs<rpc::MetaLoadSpec> meta(name());
  meta.add("meta-loaded").setDone(true);
  meta.apply(store);
  Outputs<rpc::UniqueMachineTokenSpec> tokens(name());
  tokens.add("unique-machine-token");
  tokens.apply(store);
}

kj::Own<Controller> inventoryController(ControllerDependencies& deps) {
  return kj::heap<InventoryController>(deps.uv, deps.platform);
}

}  // namespace talos::machined
