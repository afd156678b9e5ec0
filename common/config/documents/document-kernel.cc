// Documents of the kernel: parameters, attributes of devices, modules, rules of udev.

#include <set>

#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

// Returns the file that a setting is for, which may have several spellings.
std::string settingFile(kj::StringPtr name) {
  KJ_IF_MAYBE (path, sysctlPath(name)) return path->cStr();
  return name.cStr();
}

}  // namespace

KernelDocuments::KernelDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      modules(view.asReader().getMachine().getKernel().getModules().size()) {
  auto list = view.asReader().getMachine().getKernel().getModules();
  for (auto i : kj::indices(list)) {
    mainModules.emplace(plainModuleName(list[i].getName()), static_cast<unsigned>(i));
  }
}

void KernelDocuments::write() {
  modules.write(view.asReader().getMachine().getKernel().getModules(),
                [&](unsigned size) { return view.getMachine().getKernel().initModules(size); });
}

template <typename Init>
void KernelDocuments::merge(Document& document, capnp::List<document::Setting>::Reader settings,
                            kj::StringPtr list, capnp::List<StringPair>::Reader present,
                            Init init) {
  if (settings.size() == 0) return;
  std::set<std::string> replaced;
  for (auto setting : settings) replaced.insert(settingFile(setting.getKey()));
  capnp::MallocMessageBuilder copy;
  copy.setRoot(present);
  auto old = copy.getRoot<capnp::List<StringPair>>().asReader();
  unsigned kept = 0, next = 0;
  for (auto pair : old) kept += replaced.count(settingFile(pair.getKey())) == 0;
  capnp::List<StringPair>::Builder out = init(kept + settings.size());
  for (auto pair : old) {
    if (replaced.count(settingFile(pair.getKey())) == 0) out.setWithCaveats(next++, pair);
  }
  for (auto setting : settings) {
    auto pair = out[next++];
    pair.setKey(setting.getKey());
    pair.setValue(setting.getValue());
    decoder.from(document, keyPath("params", setting.getKey()), keyPath(list, setting.getKey()));
  }
}

void KernelDocuments::parameters(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::SysctlConfig>(document)) {
    merge(document, d->getParams(), "machine.sysctls", view.asReader().getMachine().getSysctls(),
          [&](unsigned size) { return view.getMachine().initSysctls(size); });
  }
}

void KernelDocuments::attributes(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::SysfsConfig>(document)) {
    merge(document, d->getParams(), "machine.sysfs", view.asReader().getMachine().getSysfs(),
          [&](unsigned size) { return view.getMachine().initSysfs(size); });
  }
}

KernelModule::Builder KernelDocuments::moduleNamed(kj::StringPtr name, kj::String& path) {
  constexpr auto kList = "machine.kernel.modules"_kj;
  auto found = mainModules.find(plainModuleName(name));
  if (found == mainModules.end()) return modules.add(kList, path);
  path = kj::str(kList, "[", found->second, "]");
  return view.getMachine().getKernel().getModules()[found->second];
}

void KernelDocuments::kernelModule(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KernelModuleConfig>(document)) {
    auto name = d->getName();
    auto [other, fresh] =
        moduleDocuments.emplace(plainModuleName(name), std::string(document.label.cStr()));
    if (!fresh) {
      return decoder.report(document, "name",
                            kj::str(other->second.c_str(), " is about the same module"),
                            "merge the two");
    }
    kj::String path;
    auto out = moduleNamed(name, path);
    out.setName(name);
    auto texts = d->getParameters();
    if (texts.size() > 0 || out.hasParameters()) out.setParameters(texts);
    decoder.from(document, "", path);
    decoder.from(document, "name", kj::str(path, ".name"));
    for (auto i : kj::indices(texts)) {
      auto key = kj::str("parameters[", i, "]");
      decoder.from(document, key, kj::str(path, ".", key));
    }
  }
}

void KernelDocuments::udevRules(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::UdevRulesConfig>(document)) {
    // checkUdev refuses the rules, as those of the main document, which these replace.
    view.getMachine().initUdev().setRules(d->getRules());
    decoder.from(document, "", "machine.udev");
    decoder.from(document, "rules", "machine.udev.rules");
  }
}

}  // namespace talos::config
