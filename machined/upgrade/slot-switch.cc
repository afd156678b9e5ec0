#include "machined/upgrade/slot-switch.h"

#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using install::nameOf;
using install::otherThan;
using install::Slot;

Slot slotFrom(kj::StringPtr name) {
  KJ_IF_MAYBE (slot, install::slotNamed(name)) return *slot;
  fail(ErrorKind::kInternal, kj::str("the installer names the slot \"", name, "\""));
}

// Fills `out`, a request or a part of one that concerns an image.
template <typename Request>
void fillImage(Request out, const ImageView& view) {
  auto image = out.initImage();
  image.setType(view.type);
  image.setSource(view.source);
  auto options = image.initOptions(view.options.size());
  for (auto i : kj::indices(view.options)) options.set(i, view.options[i]);
}

template <typename Request>
void fillImage(Request out, const ImageArchive& archive) {
  auto parts = out.initParts(archive.parts.size());
  for (auto i : kj::indices(archive.parts)) {
    parts[i].setName(archive.parts[i].name);
    parts[i].setOffset(archive.parts[i].offset);
    parts[i].setSize(archive.parts[i].size);
  }
}

template <typename Request, typename Content>
void fillUpgrade(Request out, const Content& content, kj::StringPtr boot, kj::StringPtr slot,
                 kj::StringPtr arguments) {
  out.setDevice(boot);
  out.setSlot(slot);
  out.setArguments(arguments);
  fillImage(out, content);
}

int archiveOf(const NewSystem& system) {
  KJ_IF_MAYBE (archive, system.tryGet<ImageArchive>()) return archive->descriptor();
  return -1;
}

}  // namespace

kj::Promise<kj::String> SlotSwitch::place() {
  return KJ_REQUIRE_NONNULL(deps.volumes).slots();
}

Slot SlotSwitch::running() const {
  return KJ_ASSERT_NONNULL(deps.running);
}

kj::Promise<install::SlotsOnDisk> SlotSwitch::look() {
  auto boot = co_await place();
  install::SlotsOnDisk result;
  co_await deps.installer.slots(
      [&](rpc::InstallRequest::Builder request) { request.setSlots(boot); },
      [&](rpc::Slots::Reader found) {
        result.state.confirmed = slotFrom(found.getConfirmed());
        if (found.getAttempt().size() > 0) result.state.attempt = slotFrom(found.getAttempt());
        result.state.tries = found.getTries();
        for (auto system : found.getSystems()) {
          result.systems.add(
              install::WholeSystem{slotFrom(system.getSlot()), kj::str(system.getVersion())});
        }
      });
  co_return kj::mv(result);
}

kj::Promise<SlotSwitch::Facts> SlotSwitch::factsOf(const NewSystem& system) {
  auto boot = co_await place();
  Facts facts;
  co_await deps.installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        auto version = request.initVersion();
        version.setDevice(boot);
        version.setSlot(nameOf(otherThan(running())));
        KJ_SWITCH_ONEOF(system) {
          KJ_CASE_ONEOF(view, ImageView) {
            fillImage(version, view);
          }
          KJ_CASE_ONEOF(parts, ImageArchive) {
            fillImage(version, parts);
          }
        }
      },
      [&](rpc::Slots::Reader found) {
        facts.version = kj::str(found.getImage());
        facts.configKeys = kj::str(found.getConfigKeys());
      },
      archiveOf(system));
  co_return kj::mv(facts);
}

kj::Promise<kj::String> SlotSwitch::write(const NewSystem& system) {
  auto slot = otherThan(running());
  auto arguments = deps.node.kernelArguments();
  auto boot = co_await place();
  kj::String version;
  co_await deps.installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        KJ_SWITCH_ONEOF(system) {
          KJ_CASE_ONEOF(view, ImageView) {
            fillUpgrade(request.initUpgrade(), view, boot, nameOf(slot), arguments);
          }
          KJ_CASE_ONEOF(parts, ImageArchive) {
            fillUpgrade(request.initUpgradeFrom(), parts, boot, nameOf(slot), arguments);
          }
        }
      },
      [&](rpc::Slots::Reader found) {
        for (auto each : found.getSystems()) {
          if (each.getSlot() == nameOf(slot)) version = kj::str(each.getVersion());
        }
      },
      archiveOf(system));
  co_return kj::mv(version);
}

kj::Promise<void> SlotSwitch::arm(unsigned healthTimeoutS) {
  return choose(otherThan(running()), healthTimeoutS);
}

kj::Promise<void> SlotSwitch::confirm() {
  return choose(nullptr, install::kHealthTimeoutS);
}

kj::Promise<void> SlotSwitch::revoke() {
  return confirm().catch_([this](kj::Exception&& e) {
    deps.node.announce(kj::str(
        "upgrade: the next start may be that of the other system, on trial: ", messageOf(e)));
  });
}

kj::Promise<void> SlotSwitch::choose(kj::Maybe<Slot> attempt, unsigned healthTimeoutS) {
  auto boot = co_await place();
  co_await deps.installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        auto choose = request.initChoose();
        choose.setDevice(boot);
        choose.setConfirmed(nameOf(running()));
        KJ_IF_MAYBE (slot, attempt) choose.setAttempt(nameOf(*slot));
        choose.setHealthTimeoutS(healthTimeoutS);
      },
      [](rpc::Slots::Reader) {});
}

}  // namespace talos::machined
