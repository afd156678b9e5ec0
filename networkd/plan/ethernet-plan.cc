#include "networkd/plan/ethernet-plan.h"

#include <algorithm>
#include <set>

#include "networkd/plan/status-records.h"

namespace talos::networkd {

using netlink::EthernetFeature;
using netlink::EthernetGroup;
using netlink::EthernetNumber;
using netlink::EthernetState;
using netlink::SetEthernet;

namespace {

template <typename Item>
const Item* named(const std::vector<Item>& items, const std::string& name) {
  for (auto& item : items) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

kj::StringPtr onOrOff(bool on) {
  return on ? "on"_kj : "off"_kj;
}

kj::String listOf(const std::vector<std::string>& names) {
  kj::Vector<kj::StringPtr> texts;
  for (auto& name : names) texts.add(name.c_str());
  return kj::strArray(texts, ", ");
}

const std::optional<std::vector<EthernetNumber>>& numbersOf(const EthernetState& state,
                                                            EthernetGroup group) {
  return group == EthernetGroup::kRings ? state.rings : state.channels;
}

class EthernetPlanner {
 public:
  EthernetPlanner(const WantedEthernet& wanted, const EthernetState& found, unsigned index)
      : wanted(wanted), found(found), index(index) {}

  EthernetPlan run() {
    planNumbers(EthernetGroup::kRings, wanted.rings);
    planFeatures();
    planNumbers(EthernetGroup::kChannels, wanted.channels);
    planWakeOnLan();
    return kj::mv(result);
  }

 private:
  const WantedEthernet& wanted;
  const EthernetState& found;
  unsigned index;
  EthernetPlan result;

  template <typename... Parts>
  void problem(EthernetGroup group, Parts&&... parts) {
    result.problems.add(kj::str(nameOf(group), kj::fwd<Parts>(parts)...));
  }
  void add(EthernetGroup group, WantedEthernet::Values values) {
    if (values.empty()) return;
    result.steps.push_back({.index = index, .group = group, .values = std::move(values)});
  }

  void planNumbers(EthernetGroup group, const WantedEthernet::Values& values) {
    if (values.empty()) return;
    auto& numbers = numbersOf(found, group);
    if (!numbers) return problem(group, ": the driver of the link has none");
    WantedEthernet::Values changes;
    for (auto& value : values) {
      auto there = named(*numbers, value.name);
      if (there == nullptr) {
        problem(group, ".", value.name.c_str(), ": the driver of the link has no such value");
      } else if (there->most && value.value > *there->most) {
        problem(group, ".", value.name.c_str(), ": ", value.value,
                " is more than the maximum of the driver, ", *there->most);
      } else if (there->value != value.value) {
        changes.push_back(value);
      }
    }
    add(group, std::move(changes));
  }

  void planFeatures() {
    constexpr auto kGroup = EthernetGroup::kFeatures;
    WantedEthernet::Values changes;
    for (auto& value : wanted.features) {
      auto there = named(found.features, value.name);
      bool on = value.value != 0;
      if (there == nullptr) {
        problem(kGroup, ".", value.name.c_str(), ": the link has no such feature");
      } else if (there->fixed && there->active != on) {
        problem(kGroup, ".", value.name.c_str(), ": the driver does not let it change; it is ",
                onOrOff(there->active));
      } else if (!there->fixed && there->requested != on) {
        changes.push_back(value);
      } else if (there->active != on) {
        problem(kGroup, ".", value.name.c_str(), ": it is ", onOrOff(there->active),
                " because of another feature or the state of the link");
      }
    }
    add(kGroup, std::move(changes));
  }

  void planWakeOnLan() {
    constexpr auto kGroup = EthernetGroup::kWakeOnLan;
    if (!wanted.wakeOnLan) return;
    if (!found.wakeOnLan) {
      if (!wanted.wakeOnLan->empty()) problem(kGroup, ": the driver of the link has none");
      return;
    }
    auto& supported = found.wakeOnLan->supported;
    std::set<std::string> modes,
        enabled(found.wakeOnLan->enabled.begin(), found.wakeOnLan->enabled.end());
    for (auto& mode : *wanted.wakeOnLan) {
      if (std::find(supported.begin(), supported.end(), mode) != supported.end()) {
        modes.insert(mode);
      } else if (supported.empty()) {
        problem(kGroup, ": ", mode.c_str(), ": the driver of the link has no mode");
      } else {
        problem(kGroup, ": ", mode.c_str(), ": the driver of the link has only ",
                listOf(supported));
      }
    }
    if (modes == enabled) return;
    SetEthernet step{.index = index, .group = kGroup};
    for (auto& mode : modes) step.values.push_back({mode});
    result.steps.push_back(std::move(step));
  }
};

}  // namespace

WantedEthernet wantedEthernet(kj::StringPtr link, uint64_t version,
                              rpc::EthernetSpecSpec::Reader spec) {
  WantedEthernet wanted{.link = link.cStr(), .version = version};
  auto take = [](auto list, WantedEthernet::Values& values) {
    for (auto pair : list) values.push_back({pair.getKey().cStr(), uint32_t(pair.getValue())});
  };
  take(spec.getRings(), wanted.rings);
  take(spec.getChannels(), wanted.channels);
  take(spec.getFeatures(), wanted.features);
  if (spec.getSetsWakeOnLan()) {
    wanted.wakeOnLan.emplace();
    for (auto mode : spec.getWakeOnLan()) wanted.wakeOnLan->push_back(mode.cStr());
  }
  return wanted;
}

EthernetPlan plan(const WantedEthernet& wanted, const EthernetState& found, unsigned index) {
  return EthernetPlanner(wanted, found, index).run();
}

kj::Vector<kj::String> notTaken(kj::ArrayPtr<const SetEthernet> steps, const EthernetState& found) {
  kj::Vector<kj::String> problems;
  for (auto& step : steps) {
    if (step.group != EthernetGroup::kRings && step.group != EthernetGroup::kChannels) {
      problems.add(kj::str(describe(step), ": the driver has accepted this, and has not done it"));
      continue;
    }
    auto& numbers = numbersOf(found, step.group);
    for (auto& value : step.values) {
      auto there = numbers ? named(*numbers, value.name) : nullptr;
      if (there == nullptr) continue;
      problems.add(kj::str(nameOf(step.group), ".", value.name.c_str(), ": the driver has ",
                           there->value, " instead of ", value.value));
    }
  }
  return problems;
}

namespace {

void fillNumbers(rpc::EthernetStatusSpec::Builder spec, EthernetGroup group,
                 const std::optional<std::vector<EthernetNumber>>& numbers) {
  if (!numbers) return;
  unsigned count = 0, next = 0;
  for (auto& number : *numbers) count += number.most ? 2 : 1;
  auto out = group == EthernetGroup::kRings ? spec.initRings(count) : spec.initChannels(count);
  auto add = [&](kj::StringPtr key, uint32_t value) {
    out[next].setKey(key);
    out[next++].setValue(value);
  };
  for (auto& number : *numbers) {
    add(number.name.c_str(), number.value);
    if (number.most) add(kj::str(number.name.c_str(), "-max"), *number.most);
  }
}

kj::String featureText(const EthernetFeature& feature) {
  auto text = kj::str(feature.name.c_str(), ": ", onOrOff(feature.active));
  if (feature.fixed) return kj::str(text, " [fixed]");
  if (feature.active == feature.requested) return text;
  return kj::str(text, " [requested ", onOrOff(feature.requested), "]");
}

void fillNames(capnp::List<capnp::Text>::Builder out, const std::vector<std::string>& names) {
  for (auto i : kj::indices(names)) out.set(static_cast<unsigned>(i), names[i].c_str());
}

}  // namespace

void addEthernetStatus(Records& records, kj::StringPtr link, const EthernetState& found,
                       uint64_t version, kj::ArrayPtr<const kj::String> problems) {
  insert<rpc::EthernetStatusSpec>(
      records, kj::str(link), [&](rpc::EthernetStatusSpec::Builder spec) {
        fillNumbers(spec, EthernetGroup::kRings, found.rings);
        fillNumbers(spec, EthernetGroup::kChannels, found.channels);
        auto features = spec.initFeatures(static_cast<unsigned>(found.features.size()));
        for (auto i : kj::indices(found.features)) {
          features.set(static_cast<unsigned>(i), featureText(found.features[i]));
        }
        if (found.wakeOnLan) {
          auto& wake = *found.wakeOnLan;
          fillNames(spec.initWakeOnLan(static_cast<unsigned>(wake.enabled.size())), wake.enabled);
          fillNames(spec.initWakeOnLanSupported(static_cast<unsigned>(wake.supported.size())),
                    wake.supported);
        }
        fillTexts(spec.initProblems(static_cast<unsigned>(problems.size())), problems);
        spec.setSpecVersion(version);
      });
}

}  // namespace talos::networkd
