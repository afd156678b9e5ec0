// The parts that all assemblies of the brain share: the loop, the facts about the machine, its logs
// and events, its store and its controllers.
#pragma once

#include <kj/async-io.h>

#include <random>

#include "common/kernel/kernel-arguments.h"
#include "machined/boot/announcements.h"
#include "machined/boot/machine-stage.h"
#include "machined/boot/node-environment.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/confined/parser-client/parser-process-client.h"
#include "machined/crashes/service-pages.h"
#include "machined/process1/helpers/kernel-helpers.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

struct BrainCore {
  BrainCore(kj::AsyncIoContext& io, Process1& process1) : io(io), process1(process1) {}
  KJ_DISALLOW_COPY_AND_MOVE(BrainCore);

  kj::AsyncIoContext& io;
  Process1& process1;
  kj::Timer& timer = io.provider->getTimer();
  const kj::Clock& clock = kj::systemPreciseCalendarClock();
  std::minstd_rand generator{std::random_device{}()};
  KernelArguments arguments = kernelArguments();
  kj::String platform = platformOf(arguments);
  Mode mode = modeOfPlatform(platform);
  bool container = mode == Mode::kContainer;
  KernelHelpers helpers{process1, io.unixEventPort, timer, printInfo()};
  UvLoop uv{io.unixEventPort, timer};
  ConfinedForeign foreign{io};

  Events events{clock, process1};
  Logs logs{process1, io.unixEventPort};
  ServicePages pages{process1};
  Console console{logs, clock, container ? ConsoleKind::kOutput : ConsoleKind::kKernelLog};
  Announcements announcements{events, console, logs};

  Registry registry;
  Store store{registry, clock};
  MachineConfigReader configReader;
  ControllerRuntime controllers{store, logs, timer, clock, KJ_BIND_METHOD(*this, chance)};
  MachineStatus status{KJ_BIND_METHOD(*this, publishStatus)};

  double chance() { return std::uniform_real_distribution<double>(0, 1)(generator); }
  void publishStatus();        // wakes the controller of MachineStatuses
  void renewApiCertificate();  // wakes the controller of the API's certificates

  using Print = kj::Function<void(kj::StringPtr)>;
  Print printInfo();                            // to the console
  Print printAlarms();                          // each line is an alarm
  Print printWithAlarms(kj::StringPtr prefix);  // a line with this prefix is an alarm
  kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking();  // on the thread pool
};

}  // namespace talos::machined
