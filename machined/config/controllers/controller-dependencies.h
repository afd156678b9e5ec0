// Makes the controllers that need only dependencies of every brain: each controller has a line in
// the table controllers.inc, and its file defines its maker, by the name in the table. A new
// controller needs its class and maker in this folder, a line in the table, and nothing else.
#pragma once

#include "common/base/error.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/confined/parser-client/known-facts.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/kernel-settings.h"
#include "machined/system/watchdog.h"

namespace talos::machined {

class PlatformFactsFile;
class TrustedBundle;

// The dependencies of these controllers, which outlive the controllers.
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
  kj::Function<void(kj::StringPtr)> warn;    // prints for the operator, on the console
  kj::Function<bool()> showsStateToAnybody;  // changes must poke secrets.ApiController
  // Writes a line of the log `audit`: what the node has done for one of its programs.
  kj::Function<void(kj::StringPtr program, kj::StringPtr call)> audit = [](auto, auto) {};
  kj::Function<bool()> isStateMounted = []() { return false; };
  kj::Function<bool()> isStateToCome = []() { return false; };  // the node is to be installed first
  kj::Function<double()> random = []() { return 0.5; };         // [0, 1)
  // Makes one attempt to get the platform's facts; nullptr if the platform states none.
  kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> platformFacts = nullptr;
  kj::Maybe<PlatformFactsFile&> platformFactsFile = nullptr;
  // Makes one attempt to report to the platform that this machine is ready; nullptr if it expects
  // no report.
  kj::Maybe<kj::Function<kj::Promise<void>()>> platformReport = nullptr;
  kj::Maybe<TrustedBundle&> trustedBundle = nullptr;  // of public CAs
  kj::Array<kj::String> metadataAddresses = nullptr;  // addresses that pods must not reach
  // Merges the user's parts of containerd's configuration into that of the system.
  kj::Function<kj::Promise<kj::String>(kj::StringPtr system, kj::ArrayPtr<const kj::String> parts)>
      mergeContainerd = [](kj::StringPtr, kj::ArrayPtr<const kj::String>) {
        return kj::Promise<kj::String>(error(ErrorKind::kUnavailable, "no parser can be started"));
      };
};

#define CONTROLLER(maker) kj::Own<Controller> maker(ControllerDependencies& deps);
#include "machined/config/controllers/controllers.inc"
#undef CONTROLLER

void addTo(ControllerRuntime& runtime, ControllerDependencies& deps);  // all of the table

}  // namespace talos::machined
