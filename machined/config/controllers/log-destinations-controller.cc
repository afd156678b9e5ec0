// runtime.LogDestinationsController: writes the receivers of machine.logging as LogDestinations,
// and the headers of their requests as LogDestinationCredentials, which only an administrator and
// logd read. logd follows both. For clients of Talos it also writes KmsgLogConfigs and
// EventSinkConfigs, with the receivers that get the kernel's log or events.
#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/net/text-values.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

void fillDestination(rpc::LogDestinationSpec::Builder out, config::LogDestination::Reader in) {
  out.setFormat(in.getFormat());
  if (in.getStreams().size() > 0) {
    out.setStreams(in.getStreams());
  } else {
    out.initStreams(1).set(0, config::LogStream::SERVICES);
  }
  out.setTags(in.getExtraTags());
  out.setAuthorities(kj::str(in.getCa().asChars()));
  out.setBufferBytes(config::parseSize(in.getBufferSize()).orDefault(config::kDefaultLogBuffer));
  out.setCompression(in.getCompression());
  auto headers = in.getHeaders();
  auto names = out.initHeaders(headers.size());
  for (auto i : kj::indices(headers)) names.set(i, headers[i].getKey());
}

class LogDestinationsController final : public Controller {
 public:
  explicit LogDestinationsController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "runtime.LogDestinationsController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::LogDestinationSpec, rpc::LogDestinationCredentialsSpec,
                     rpc::KmsgLogConfigSpec, rpc::EventSinkConfigSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::LogDestinationSpec> destinations(name());
    Outputs<rpc::LogDestinationCredentialsSpec> credentials(name());
    Outputs<rpc::KmsgLogConfigSpec> kernelLogs(name());
    Outputs<rpc::EventSinkConfigSpec> eventSinks(name());
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      kj::Vector<kj::StringPtr> ofKernel;
      for (auto destination : machine->getLogging().getDestinations()) {
        kj::StringPtr endpoint = destination.getEndpoint();
        fillDestination(destinations.add(endpoint), destination);
        if (destination.getHeaders().size() > 0) {
          credentials.add(endpoint).setHeaders(destination.getHeaders());
        }
        for (auto stream : destination.getStreams()) {
          if (stream == config::LogStream::KERNEL) ofKernel.add(endpoint);
          // Talos' record has one endpoint; several endpoints need several records.
          if (stream == config::LogStream::EVENTS) eventSinks.add(endpoint).setEndpoint(endpoint);
        }
      }
      if (!ofKernel.empty()) {
        fillTexts(kernelLogs.add("kmsg-log").initDestinations(ofKernel.size()), ofKernel);
      }
    }
    credentials.apply(store);
    destinations.apply(store);
    kernelLogs.apply(store);
    eventSinks.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> logDestinationsController(ControllerDependencies& deps) {
  return kj::heap<LogDestinationsController>(deps.config);
}

}  // namespace talos::machined
