// Documents of the kernel: parameters, attributes and drivers of devices, modules, rules of udev,
// and what happens when memory is short.

#include <set>

#include "common/cel/oom-expressions.h"
#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

// Returns the file that a setting is for, which may have several spellings.
std::string settingFile(kj::StringPtr name) {
  KJ_IF_MAYBE (path, sysctlPath(name)) return path->cStr();
  return name.cStr();
}

constexpr kj::StringPtr kPciForm = "use the form 0000:04:00.0, as in talosctl get pcidevices"_kj;

// Returns true for so many digits in hexadecimal.
bool isHex(kj::ArrayPtr<const char> text, size_t least, size_t most) {
  if (text.size() < least || text.size() > most) return false;
  for (char c : text) {
    if (!isDigit(c) && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

// Returns the address as the kernel writes it: domain:bus:device.function in lower case, with one
// digit for the function, which Talos' documents write with two. nullptr if it is not valid.
kj::Maybe<kj::String> pciAddress(kj::StringPtr text) {
  auto address = lowerCase(text);
  auto first = address.findFirst(':').orDefault(address.size());
  auto last = address.findLast(':').orDefault(address.size());
  auto dot = address.findLast('.').orDefault(address.size());
  if (first >= last || dot <= last || dot == address.size()) return nullptr;
  auto function = address.slice(dot + 1);
  if (function.size() == 2 && function[0] == '0') function = function.slice(1);
  auto device = address.slice(last + 1, dot);
  bool valid = isHex(address.slice(0, first), 4, 8) &&
               isHex(address.slice(first + 1, last), 2, 2) && isHex(device, 2, 2) &&
               device[0] <= '1' && function.size() == 1 && function[0] >= '0' && function[0] <= '7';
  if (!valid) return nullptr;
  return kj::str(address.slice(0, dot), ".", function);
}

bool isDriverName(kj::StringPtr name) {
  for (char c : name) {
    if (!isAlphanumeric(c) && c != '_' && c != '-') return false;
  }
  return name.size() > 0;
}

constexpr auto kShortestInterval = 10 * kj::MILLISECONDS, kLongestInterval = 1 * kj::HOURS;

}  // namespace

KernelDocuments::KernelDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      modules(view.asReader().getMachine().getKernel().getModules().size()),
      drivers(0) {
  auto list = view.asReader().getMachine().getKernel().getModules();
  for (auto i : kj::indices(list)) {
    mainModules.emplace(plainModuleName(list[i].getName()), static_cast<unsigned>(i));
  }
}

void KernelDocuments::write() {
  modules.write(view.asReader().getMachine().getKernel().getModules(),
                [&](unsigned size) { return view.getMachine().getKernel().initModules(size); });
  drivers.write(view.asReader().getMachine().getPciDrivers(),
                [&](unsigned size) { return view.getMachine().initPciDrivers(size); });
}

template <typename Init>
void KernelDocuments::merge(Document& document, kj::StringPtr key,
                            capnp::List<document::Setting>::Reader settings, kj::StringPtr list,
                            capnp::List<StringPair>::Reader present, Init init) {
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
    decoder.from(document, key.size() == 0 ? kj::String() : keyPath(key, setting.getKey()),
                 keyPath(list, setting.getKey()));
  }
}

void KernelDocuments::parameters(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::SysctlConfig>(document)) {
    merge(document, "params", d->getParams(), "machine.sysctls",
          view.asReader().getMachine().getSysctls(),
          [&](unsigned size) { return view.getMachine().initSysctls(size); });
  }
}

void KernelDocuments::attributes(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::SysfsConfig>(document)) {
    merge(document, "params", d->getParams(), "machine.sysfs",
          view.asReader().getMachine().getSysfs(),
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

void KernelDocuments::pciDriver(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::PCIDriverRebindConfig>(document)) {
    auto address = pciAddress(d->getName());
    if (address == nullptr) {
      decoder.report(document, "name",
                     kj::str(jsonString(d->getName()), " is not the address of a device on PCI"),
                     kPciForm);
    }
    if (!isDriverName(d->getTargetDriver())) {
      decoder.report(document, "targetDriver",
                     kj::str(jsonString(d->getTargetDriver()), " is not a valid name of a driver"),
                     "use letters, digits, - and _, for example vfio-pci");
    }
    KJ_IF_MAYBE (device, address) {
      auto [other, fresh] =
          driverDocuments.emplace(device->cStr(), std::string(document.label.cStr()));
      if (!fresh) {
        return decoder.report(document, "name",
                              kj::str(other->second.c_str(), " is about the same device"),
                              "merge the two");
      }
      kj::String path;
      auto out = drivers.add("machine.pciDrivers", path);
      out.setDevice(*device);
      out.setDriver(d->getTargetDriver());
      decoder.from(document, "", path);
      decoder.from(document, "name", kj::str(path, ".device"));
      decoder.from(document, "targetDriver", kj::str(path, ".driver"));
    }
  }
}

uint32_t KernelDocuments::sampleInterval(Document& document, kj::StringPtr text) {
  constexpr auto kKey = "sampleInterval"_kj;
  if (text.size() == 0) return 0;
  KJ_IF_MAYBE (length, parseDuration(text)) {
    if (*length == 0 * kj::SECONDS) return 0;
    if (*length < kShortestInterval || *length > kLongestInterval) {
      decoder.report(document, kKey, kj::str("must be from 10ms to 1h"),
                     "for example 500ms, or 0s for the default");
    }
    return static_cast<uint32_t>(*length / kj::MILLISECONDS);
  }
  decoder.report(document, kKey, kj::str(jsonString(text), " is not a valid duration"),
                 "for example 500ms");
  return 0;
}

void KernelDocuments::outOfMemory(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::OOMConfig>(document)) {
    auto errors = decoder.errors();
    auto check = [&](kj::StringPtr key, kj::StringPtr text, const cel::Compiled& compiled) {
      KJ_IF_MAYBE (mistake, compiled.mistake) {
        decoder.report(document, key, kj::str("in the expression, ", cel::render(text, *mistake)),
                       "");
      }
    };
    auto trigger = d->getTriggerExpression(), ranking = d->getCgroupRankingExpression();
    check("triggerExpression", trigger, cel::compileTrigger(trigger));
    check("cgroupRankingExpression", ranking, cel::compileRanking(ranking));
    auto interval = sampleInterval(document, d->getSampleInterval());
    if (decoder.errors() != errors) return;
    auto out = view.getMachine().initOutOfMemory();
    out.setTriggerExpression(trigger);
    out.setRankingExpression(ranking);
    out.setIgnoresClasses(!d->getStrictCgroupClassOrdering());
    if (interval > 0) out.setIntervalMs(interval);
    decoder.from(document, "", "machine.outOfMemory");
  }
}

void KernelDocuments::zswap(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::ZswapConfig>(document)) {
    if (d->getMaxPoolPercent() > 100) {
      return decoder.report(document, "maxPoolPercent",
                            kj::str(d->getMaxPoolPercent(), " is not a valid percentage"),
                            "must be 0 to 100");
    }
    capnp::MallocMessageBuilder scratch;
    auto settings = scratch.initRoot<document::SysfsConfig>().initParams(3);
    auto set = [&](unsigned index, kj::StringPtr name, kj::StringPtr value) {
      settings[index].setKey(kj::str("module.zswap.parameters.", name));
      settings[index].setValue(value);
    };
    set(0, "max_pool_percent", kj::str(d->getMaxPoolPercent()));
    set(1, "shrinker_enabled", d->getShrinkerEnabled() ? "Y" : "N");
    set(2, "enabled", "Y");
    merge(document, "", settings.asReader(), "machine.sysfs",
          view.asReader().getMachine().getSysfs(),
          [&](unsigned size) { return view.getMachine().initSysfs(size); });
  }
}

}  // namespace talos::config
