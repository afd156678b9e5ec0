// Documents of containers and pods: containerd's configuration, its specification of containers,
// and static pods.

#include "common/base/node-layout.h"
#include "common/config/documents/document-reader.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {

PodDocuments::PodDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      pods(view.asReader().getMachine().getPods().size()),
      files(view.asReader().getMachine().getFiles().size()) {}

void PodDocuments::dropSince(Mark mark) {
  pods.keepFirst(mark.pods);
  files.keepFirst(mark.files);
}

void PodDocuments::write() {
  auto machine = view.asReader().getMachine();
  pods.write(machine.getPods(), [&](unsigned size) { return view.getMachine().initPods(size); });
  files.write(machine.getFiles(), [&](unsigned size) { return view.getMachine().initFiles(size); });
}

void PodDocuments::baseRuntimeSpec(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::CRIBaseRuntimeSpecConfig>(document)) {
    constexpr auto kInView = "machine.baseRuntimeSpecOverrides"_kj;
    if (view.asReader().getMachine().hasBaseRuntimeSpecOverrides()) {
      return decoder.report(document, "overrides", kj::str(kInView, " is set as well"),
                            "remove one of the two");
    }
    auto list = d->getOverrides();
    auto out = view.getMachine().initBaseRuntimeSpecOverrides(list.size());
    for (auto i : kj::indices(list)) {
      out[i].setKey(list[i].getKey());
      out[i].setValue(list[i].getValue());
    }
    decoder.from(document, "overrides", kInView);
  }
}

void PodDocuments::containerdPart(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::CRICustomizationConfig>(document)) {
    if (d->getName() == "customization") {
      return decoder.report(document, "name",
                            kj::str("machine.files names its part of the configuration so"),
                            "use another name");
    }
    kj::String path;
    auto file = files.add("machine.files", path);
    file.setPath(kContainerdPart);
    file.setOp(FileOp::CREATE);
    file.setContent(d->getContent());
    decoder.from(document, "", path);
    decoder.from(document, "content", kj::str(path, ".content"));
  }
}

void PodDocuments::staticPod(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeStaticPodConfig>(document)) {
    if (!isDnsName(d->getName())) {
      return decoder.report(document, "name",
                            kj::str(jsonString(d->getName()), " is not a valid name"),
                            "use lower-case letters, digits, - and .");
    }
    kj::String path;
    pods.add("machine.pods", path).setPod(d->getPod());
    decoder.from(document, "pod", path);
  }
}

}  // namespace talos::config
