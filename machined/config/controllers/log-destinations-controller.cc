// runtime.LogDestinationsController: writes the receivers of machine.logging as LogDestinations,
// and the headers of their requests as LogDestinationCredentials, which only an administrator and
// logd read. logd follows both. For clients of Talos it also writes KmsgLogConfigs and
// EventSinkConfigs, with the receivers that get the kernel's log or events.
//
// The kernel argument talos.events.sink names a receiver of events, as in Talos, until a config
// names such a receiver itself. Its record needs no config, but logd starts only when /var is
// mounted: in maintenance mode the events wait in machined.
#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"
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

// The id of the record in Talos, which has one such receiver.
constexpr kj::StringPtr kEventSinkId = "event-sink"_kj, kSinkArgument = "talos.events.sink"_kj;

// The records for clients of Talos: the receivers of the kernel's log, and those of events.
class ReceiverRecords {
 public:
  explicit ReceiverRecords(kj::StringPtr owner) : kernelLogs(owner), eventSinks(owner) {}

  void addKernelLog(kj::StringPtr endpoint) { ofKernel.add(kj::str(endpoint)); }
  // Talos' record has one endpoint; several endpoints need several records.
  void addEventSink(kj::StringPtr endpoint) {
    if (!hasSink && endpoint.startsWith(config::kEventSinkPrefix)) {
      hasSink = true;
      eventSinks.add(kEventSinkId).setEndpoint(endpoint.slice(config::kEventSinkPrefix.size()));
    } else {
      eventSinks.add(endpoint).setEndpoint(endpoint);
    }
  }
  // Returns true if a receiver of events is one that Talos knows.
  bool hasEventSink() const { return hasSink; }
  void apply(Store& store) {
    if (!ofKernel.empty()) {
      fillTexts(kernelLogs.add("kmsg-log").initDestinations(ofKernel.size()), ofKernel);
    }
    kernelLogs.apply(store);
    eventSinks.apply(store);
  }

 private:
  Outputs<rpc::KmsgLogConfigSpec> kernelLogs;
  Outputs<rpc::EventSinkConfigSpec> eventSinks;
  kj::Vector<kj::String> ofKernel;
  bool hasSink = false;
};

class LogDestinationsController final : public Controller {
 public:
  explicit LogDestinationsController(ControllerDependencies& deps)
      : config(deps.config), argument(sinkOf(deps)) {}

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
    ReceiverRecords receivers(name());
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      for (auto destination : machine->getLogging().getDestinations()) {
        kj::StringPtr endpoint = destination.getEndpoint();
        fillDestination(destinations.add(endpoint), destination);
        if (destination.getHeaders().size() > 0) {
          credentials.add(endpoint).setHeaders(destination.getHeaders());
        }
        for (auto stream : destination.getStreams()) {
          if (stream == config::LogStream::KERNEL) receivers.addKernelLog(endpoint);
          if (stream == config::LogStream::EVENTS) receivers.addEventSink(endpoint);
        }
      }
    }
    if (argument.size() > 0 && !receivers.hasEventSink()) {
      auto destination = destinations.add(argument);
      destination.initStreams(1).set(0, config::LogStream::EVENTS);
      destination.setBufferBytes(config::kDefaultLogBuffer);
      receivers.addEventSink(argument);
    }
    credentials.apply(store);
    destinations.apply(store);
    receivers.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
  kj::String argument;  // endpoint of the kernel argument; empty if it is missing or not valid

  static kj::String sinkOf(ControllerDependencies& deps) {
    KJ_IF_MAYBE (address, deps.arguments.first(kSinkArgument)) {
      if (config::isHostAndPort(*address, true)) {
        return kj::str(config::kEventSinkPrefix, *address);
      }
      deps.warn(kj::str("kernel argument ", kSinkArgument, ": ", jsonString(*address),
                        " is not a host and a port; for example 192.0.2.7:4000"));
    }
    return kj::String();
  }
};

}  // namespace

kj::Own<Controller> logDestinationsController(ControllerDependencies& deps) {
  return kj::heap<LogDestinationsController>(deps);
}

}  // namespace talos::machined
