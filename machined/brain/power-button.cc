#include "machined/brain/power-button.h"

#include "common/netlink/netlink-generic.h"
#include "machined/process1/init/power-button.h"

namespace talos::machined {

kj::Promise<void> listenForPowerButton(UvLoop& uv, Process1& process1, const KernelHelpers& helpers,
                                       kj::Function<void(kj::StringPtr)> print) {
  if (process1.takeHeld(process1::kPowerButton) != nullptr) co_return;
  auto opened = co_await uv.blocking([&helpers]() {
    auto socket = netlink::listenToGroup("acpi_event", "acpi_mc_group");
    if (socket != nullptr) helpers.openModules().load("button");
    return socket;
  });
  KJ_IF_MAYBE (socket, opened) {
    co_await process1.hold(process1::kPowerButton, socket->get());
  } else {
    print("power button unsupported: no ACPI");
  }
}

}  // namespace talos::machined
