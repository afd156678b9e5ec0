#include "machined/disk/installer/installer-request.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/disk/installer/boot-slot-writer.h"
#include "machined/disk/installer/system-disk-erasure.h"
#include "machined/disk/installer/system-installation.h"
#include "machined/disk/installer/user-disk-formatter.h"
#include "machined/disk/volumes/installer-client.h"
#include "rpc/install.capnp.h"

namespace talos::install {
namespace {

constexpr size_t kMostRequestWords = 64u << 10;

class Brain : public machined::BrainSocket {
 public:
  explicit Brain(int socket) : BrainSocket(socket, kMostRequestWords) {}

  void tell(kj::FunctionParam<void(rpc::InstallAnswer::Builder)> fill) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<rpc::InstallAnswer>());
    BrainSocket::tell(message);
  }
};

System runningSystem() {
  return {.image = rootImage(readFile("/proc/self/mountinfo"))};
}

bool carryOutOnDisk(rpc::InstallRequest::Reader request, Say& say) {
  switch (request.which()) {
    case rpc::InstallRequest::WRITE: {
      auto wish = request.getWrite();
      return write({.disk = wish.getDisk(),
                    .wipe = wish.getWipe(),
                    .arguments = wish.getArguments(),
                    .again = wish.getAgain()},
                   runningSystem(), say);
    }
    case rpc::InstallRequest::FINISH: {
      auto wish = request.getFinish();
      finish(wish.getDisk(), wish.getBootLoader(), runningSystem(), say);
      return true;
    }
    case rpc::InstallRequest::FORMAT: {
      auto wish = request.getFormat();
      format(wish.getDevice(), wish.getLabel(), wish.getEmpty());
      return true;
    }
    case rpc::InstallRequest::GROW:
      return grow(request.getGrow());
    case rpc::InstallRequest::ERASE: {
      auto wish = request.getErase();
      kj::Vector<kj::StringPtr> labels;
      for (auto label : wish.getLabels()) labels.add(label);
      return erase(wish.getDisk(), labels, say);
    }
    case rpc::InstallRequest::DIVIDE: {
      auto wish = request.getDivide();
      kj::Vector<uint64_t> sizes;
      for (auto size : wish.getSizes()) sizes.add(size);
      return divide(wish.getDisk(), sizes, say);
    }
    default:
      break;
  }
  fail(ErrorKind::kUnimplemented, "this installer does not know the request");
}

Slot slotOf(kj::StringPtr name) {
  KJ_IF_MAYBE (slot, slotNamed(name)) return *slot;
  fail(ErrorKind::kInvalidArgument, kj::str("not a slot: \"", name, "\""));
}

kj::String upgradeAs(rpc::InstallRequest::Upgrade::Reader wish, Say& say) {
  auto in = wish.getImage();
  ImageMount image{kj::str(in.getType()), kj::str(in.getSource()), {}};
  for (auto option : in.getOptions()) image.options.add(kj::str(option));
  return upgrade(wish.getDevice(), slotOf(wish.getSlot()), ImageSource(kj::mv(image)),
                 wish.getArguments(), say);
}

kj::String upgradeFromArchive(rpc::InstallRequest::UpgradeFrom::Reader wish, Say& say) {
  ImageInArchive image{machined::kInstallerArchiveFd, {}};
  for (auto part : wish.getParts()) {
    image.parts.add(
        ImageInArchive::Part{kj::str(part.getName()), part.getOffset(), part.getSize()});
  }
  return upgrade(wish.getDevice(), slotOf(wish.getSlot()), ImageSource(kj::mv(image)),
                 wish.getArguments(), say);
}

void chooseAs(rpc::InstallRequest::Choose::Reader wish) {
  SlotState state{.confirmed = slotOf(wish.getConfirmed())};
  if (wish.getAttempt().size() > 0) {
    state.attempt = slotOf(wish.getAttempt());
    state.tries = 1;
    state.healthTimeoutS = wish.getHealthTimeoutS();
  }
  choose(wish.getDevice(), state);
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

void carryOut(rpc::InstallRequest::Reader request, Say& say, rpc::InstallAnswer::Builder out) {
  switch (request.which()) {
    case rpc::InstallRequest::UPGRADE:
      upgradeAs(request.getUpgrade(), say);
      return fillSlots(readSlotsOf(request.getUpgrade().getDevice()), out.initSlots());
    case rpc::InstallRequest::UPGRADE_FROM:
      upgradeFromArchive(request.getUpgradeFrom(), say);
      return fillSlots(readSlotsOf(request.getUpgradeFrom().getDevice()), out.initSlots());
    case rpc::InstallRequest::SLOTS:
      return fillSlots(readSlotsOf(request.getSlots()), out.initSlots());
    case rpc::InstallRequest::CHOOSE:
      chooseAs(request.getChoose());
      return fillSlots(readSlotsOf(request.getChoose().getDevice()), out.initSlots());
    case rpc::InstallRequest::CLEAR:
      clearHead(request.getClear().getDevice(), request.getClear().getBytes());
      return out.setDone(true);
    default:
      return out.setDone(carryOutOnDisk(request, say));
  }
}

}  // namespace

int serve(int socket) {
  auto failure = kj::runCatchingExceptions([&]() {
    Brain brain(socket);
    auto words = brain.hear();
    capnp::FlatArrayMessageReader message(words, machined::readerOptions(words.size()));
    Say say = [&](kj::StringPtr line) {
      brain.tell([&](rpc::InstallAnswer::Builder out) { out.setProgress(line); });
    };
    brain.tell([&](rpc::InstallAnswer::Builder out) {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                          [&]() { carryOut(message.getRoot<rpc::InstallRequest>(), say, out); })) {
        out.setFailed(messageOf(*e));
      }
    });
  });
  return failure == nullptr ? 0 : 1;
}

}  // namespace talos::install
