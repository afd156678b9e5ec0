#include "machined/disk/installer/installer-request.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/disk/installer/device-wipe.h"
#include "machined/disk/installer/system-disk-erasure.h"
#include "machined/disk/installer/system-installation.h"
#include "machined/disk/installer/user-disk-formatter.h"
#include "machined/disk/installer/volume-partitions.h"
#include "machined/disk/volumes/installer-client.h"
#include "rpc/install.capnp.h"

namespace talos::install {
namespace {

constexpr size_t kMostRequestWords = 64u << 10;

class Brain : public machined::BrainSocket {
 public:
  explicit Brain(int socket) : BrainSocket(socket, kMostRequestWords) {}

  void send(kj::FunctionParam<void(rpc::InstallAnswer::Builder)> fill) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<rpc::InstallAnswer>());
    BrainSocket::send(message);
  }
};

System runningSystem() {
  return {.image = rootImage(readFile("/proc/self/mountinfo"))};
}

machined::FoundOnDisk foundIn(rpc::InstallRequest::Reader request) {
  auto in = request.getFound();
  machined::FoundOnDisk found;
  if (in.getTable().size() > 0) found.table = kj::str(in.getTable());
  for (auto name : in.getPartitions()) found.partitions.add(kj::str(name));
  for (auto volume : in.getVolumes()) {
    found.volumes.add(
        machined::FoundOnDisk::Volume{kj::str(volume.getType()), kj::str(volume.getLabel())});
  }
  return found;
}

EphemeralSize ephemeralIn(rpc::InstallRequest::Reader request) {
  auto in = request.getEphemeral();
  return {.bound = {in.getMost(), in.getMostPercent(), in.getLeavesMost()},
          .least = in.getLeast(),
          .grows = !in.getFixed()};
}

// Carries out the requests about volumes and their disks.
bool changeVolume(rpc::InstallRequest::Reader request, Say& say, Confinement& confinement) {
  switch (request.which()) {
    case rpc::InstallRequest::ADD_PARTITION: {
      auto params = request.getAddPartition();
      addPartition(params.getDisk(),
                   {.name = params.getName(),
                    .offset = params.getOffset(),
                    .size = params.getSize(),
                    .swap = params.getSwap()},
                   foundIn(request), say, confinement);
      return true;
    }
    case rpc::InstallRequest::FINISH_PARTITION: {
      auto params = request.getFinishPartition();
      finishPartition(params.getDisk(), params.getName(), confinement);
      return true;
    }
    case rpc::InstallRequest::GROW_PARTITION: {
      auto params = request.getGrowPartition();
      return growPartition(params.getDisk(), params.getName(), params.getSize(), confinement);
    }
    case rpc::InstallRequest::MAKE_SWAP:
      makeSwap(request.getMakeSwap().getDevice(), confinement);
      return true;
    case rpc::InstallRequest::WIPE: {
      auto params = request.getWipe();
      wipeDevice(params.getDevice(), params.getZeroes(), say, confinement);
      return true;
    }
    default:
      break;
  }
  fail(ErrorKind::kUnimplemented, "unknown kind of request");
}

bool carryOutOnDisk(rpc::InstallRequest::Reader request, Say& say, Confinement& confinement) {
  switch (request.which()) {
    case rpc::InstallRequest::WRITE: {
      auto params = request.getWrite();
      return write({.disk = params.getDisk(),
                    .wipe = params.getWipe(),
                    .arguments = params.getArguments(),
                    .again = params.getAgain(),
                    .ephemeral = ephemeralIn(request),
                    .found = foundIn(request)},
                   runningSystem(), say, confinement);
    }
    case rpc::InstallRequest::FINISH: {
      auto params = request.getFinish();
      finish(params.getDisk(), params.getBootLoader(), runningSystem(), say, confinement);
      return true;
    }
    case rpc::InstallRequest::FORMAT: {
      auto params = request.getFormat();
      format(params.getDevice(), params.getLabel(), params.getEmpty(), confinement);
      return true;
    }
    case rpc::InstallRequest::GROW:
      return grow(request.getGrow(), ephemeralIn(request), confinement);
    case rpc::InstallRequest::ERASE: {
      auto params = request.getErase();
      kj::Vector<kj::StringPtr> labels;
      for (auto label : params.getLabels()) labels.add(label);
      return erase(params.getDisk(), labels, say, confinement);
    }
    case rpc::InstallRequest::DIVIDE: {
      auto params = request.getDivide();
      kj::Vector<uint64_t> sizes;
      for (auto size : params.getSizes()) sizes.add(size);
      return divide(params.getDisk(), sizes, foundIn(request), say, confinement);
    }
    default:
      break;
  }
  return changeVolume(request, say, confinement);
}

Slot slotOf(kj::StringPtr name) {
  KJ_IF_MAYBE (slot, slotNamed(name)) return *slot;
  fail(ErrorKind::kInvalidArgument, kj::str("not a valid slot: \"", name, "\""));
}

ImageSource sourceOf(rpc::ImageMount::Reader in) {
  ImageMount image{kj::str(in.getType()), kj::str(in.getSource()), {}};
  for (auto option : in.getOptions()) image.options.add(kj::str(option));
  return kj::mv(image);
}

ImageSource sourceOf(capnp::List<rpc::ImagePart>::Reader parts) {
  ImageInArchive image{machined::kInstallerArchiveFd, {}};
  for (auto part : parts) {
    image.parts.add(
        ImageInArchive::Part{kj::str(part.getName()), part.getOffset(), part.getSize()});
  }
  return kj::mv(image);
}

kj::String upgradeAs(rpc::InstallRequest::Upgrade::Reader params, Say& say,
                     Confinement& confinement) {
  return upgrade(params.getDevice(), slotOf(params.getSlot()), sourceOf(params.getImage()),
                 params.getArguments(), say, confinement);
}

kj::String upgradeFromArchive(rpc::InstallRequest::UpgradeFrom::Reader params, Say& say,
                              Confinement& confinement) {
  return upgrade(params.getDevice(), slotOf(params.getSlot()), sourceOf(params.getParts()),
                 params.getArguments(), say, confinement);
}

void fillFacts(rpc::InstallRequest::Version::Reader params, rpc::Slots::Builder out,
               Confinement& confinement) {
  auto parts = params.getParts();
  auto source = parts.size() > 0 ? sourceOf(parts) : sourceOf(params.getImage());
  kj::Maybe<SlotAt> slot;
  if (params.getDevice().size() > 0) slot = SlotAt{params.getDevice(), slotOf(params.getSlot())};
  auto facts = factsOf(source, slot, confinement);
  out.setImage(facts.version);
  out.setConfigKeys(facts.configKeys);
}

void chooseAs(rpc::InstallRequest::Choose::Reader params, Confinement& confinement) {
  SlotState state{.confirmed = slotOf(params.getConfirmed())};
  if (params.getAttempt().size() > 0) {
    state.attempt = slotOf(params.getAttempt());
    state.tries = 1;
    state.healthTimeoutS = params.getHealthTimeoutS();
  }
  choose(params.getDevice(), state, confinement);
}

void fillSlots(const SlotsOnDisk& found, rpc::Slots::Builder out) {
  out.setConfirmed(nameOf(found.state.confirmed));
  KJ_IF_MAYBE (slot, found.state.attempt) out.setAttempt(nameOf(*slot));
  out.setTries(found.state.tries);
  auto list = out.initSystems(found.systems.size());
  for (auto i : kj::indices(found.systems)) {
    list[i].setSlot(nameOf(found.systems[i].slot));
    list[i].setVersion(found.systems[i].version);
  }
}

void carryOut(rpc::InstallRequest::Reader request, Say& say, rpc::InstallAnswer::Builder out,
              Confinement& confinement) {
  auto fillFrom = [&](kj::StringPtr place) {
    fillSlots(readSlotsOf(place, confinement), out.initSlots());
  };
  switch (request.which()) {
    case rpc::InstallRequest::UPGRADE:
      upgradeAs(request.getUpgrade(), say, confinement);
      return fillFrom(request.getUpgrade().getDevice());
    case rpc::InstallRequest::UPGRADE_FROM:
      upgradeFromArchive(request.getUpgradeFrom(), say, confinement);
      return fillFrom(request.getUpgradeFrom().getDevice());
    case rpc::InstallRequest::SLOTS:
      return fillFrom(request.getSlots());
    case rpc::InstallRequest::CHOOSE:
      confinement.step([&](Confinement& inner) {
        chooseAs(request.getChoose(), inner);
        return kj::String();
      });
      return fillFrom(request.getChoose().getDevice());
    case rpc::InstallRequest::VERSION:
      return fillFacts(request.getVersion(), out.initSlots(), confinement);
    case rpc::InstallRequest::CLEAR:
      clearHead(request.getClear().getDevice(), request.getClear().getBytes(), confinement);
      return out.setDone(true);
    default:
      return out.setDone(carryOutOnDisk(request, say, confinement));
  }
}

}  // namespace

int serve(int socket) {
  auto failure = kj::runCatchingExceptions([&]() {
    Brain brain(socket);
    auto words = brain.receive();
    capnp::FlatArrayMessageReader message(words, machined::readerOptions(words.size()));
    Say say = [&](kj::StringPtr line) {
      brain.send([&](rpc::InstallAnswer::Builder out) { out.setProgress(line); });
    };
    RealConfinement confinement;
    brain.send([&](rpc::InstallAnswer::Builder out) {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                     carryOut(message.getRoot<rpc::InstallRequest>(), say, out, confinement);
                   })) {
        out.setFailed(messageOf(*e));
      }
    });
  });
  return failure == nullptr ? 0 : 1;
}

}  // namespace talos::install
