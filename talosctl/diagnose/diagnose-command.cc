// diagnose
#include "common/yaml/yaml-codec.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/diagnose/diagnosis.h"
#include "talosctl/diagnose/gather-observations.h"

namespace talos::talosctl {
namespace {

kj::Promise<int> runDiagnose(Invocation& call) {
  auto format = formatOf(call);
  auto message = co_await gatherObservations(call);
  auto observations = message->getRoot<rpc::Observations>().asReader();
  capnp::MallocMessageBuilder result;
  auto diagnosis = result.initRoot<rpc::Diagnosis>();
  diagnose(observations, diagnosis);
  auto found = diagnosis.asReader();
  switch (format) {
    case Format::kTable:
      call.out(diagnosisText(found, lookOf(call).columns));
      break;
    case Format::kYaml:
      call.outBytes(codec::writeYaml(capnp::DynamicStruct::Reader(found)));
      break;
    case Format::kJson:
      call.out(kj::str(codec::writeJson(capnp::DynamicStruct::Reader(found)), "\n"));
      break;
  }
  co_return found.getCauses().size() > 0 ? 1 : 0;
}

}  // namespace

void addDiagnoseCommand(Command& root) {
  auto& command = root.add("diagnose", "Find what is wrong with a cluster");
  command.details =
      "Asks all nodes at once (those of --nodes, else those of the talosconfig and all that the "
      "cluster names), and Kubernetes through a control-plane node. Prints the causes, the first "
      "broken link first, each with its evidence, the remedy, and what it leads to. Changes "
      "nothing. Exit status: 0 if nothing is wrong, 1 if something is, or if the command failed.";
  addOutputFlag(command);
  command.run = runDiagnose;
}

}  // namespace talos::talosctl
