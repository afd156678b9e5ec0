// Makes the controllers that need only dependencies which every brain has: each has a line in the
// table controllers.inc and defines its maker, by that name, in its file. A new one is a file of
// this folder and a line there, and nothing else.
#pragma once

#include "common/kernel/kernel-arguments.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/confined/parser-client/known-facts.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/kernel-settings.h"
#include "machined/system/watchdog.h"

namespace talos::machined {

class PlatformFactsFile;

// The dependencies of these controllers, which they do not outlive.
struct ControllerDependencies {
  const KernelArguments& arguments;
  kj::StringPtr platform;  // metal, container …
  UvLoop& uv;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  const kj::Clock& clock;
  MachineConfigReader& config;
  KernelSettings& kernel;
  Watchdog& watchdog;
  kj::Function<void(kj::StringPtr)> warn;    // the operator, on the console
  kj::Function<bool()> showsStateToAnybody;  // a change of it must poke secrets.ApiController
  // Keeps a line of the log `audit`: what the node has done for a program of its own.
  kj::Function<void(kj::StringPtr program, kj::StringPtr call)> audit = [](auto, auto) {};
  kj::Function<bool()> isStateMounted = []() { return false; };
  kj::Function<bool()> isStateToCome = []() { return false; };  // the node is to be installed first
  kj::Function<double()> random = []() { return 0.5; };         // [0, 1)
  // One attempt to get what the platform states; none: it states nothing.
  kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> platformFacts = nullptr;
  kj::Maybe<PlatformFactsFile&> platformFactsFile = nullptr;
  // One attempt to report to it that this machine is ready; none: it expects no report.
  kj::Maybe<kj::Function<kj::Promise<void>()>> platformReport = nullptr;
  kj::Array<kj::String> metadataAddresses = nullptr;  // which pods are not to reach
};

#define CONTROLLER(maker) kj::Own<Controller> maker(ControllerDependencies& deps);
#include "machined/config/controllers/controllers.inc"
#undef CONTROLLER

void addTo(ControllerRuntime& runtime, ControllerDependencies& deps);  // all of the table

}  // namespace talos::machined
