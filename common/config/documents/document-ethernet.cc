// Documents of links' drivers: EthernetConfig.

#include <capnp/dynamic.h>

#include <algorithm>
#include <vector>

#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

using codec::YamlNode;

constexpr auto kEthernet = "machine.network.ethernet"_kj;
constexpr kj::StringPtr kWakeModes[] = {"phy"_kj, "unicast"_kj, "multicast"_kj,   "broadcast"_kj,
                                        "arp"_kj, "magic"_kj,   "magicsecure"_kj, "filter"_kj};

struct GivenValue {
  kj::StringPtr key;
  uint32_t value;  // of a boolean: 0 or 1
};

// Returns the value of a key of the document; nullptr if the key is absent or has no value.
const YamlNode* valueAt(const YamlNode& node, kj::StringPtr key) {
  for (auto& entry : node.entries) {
    if (entry.key == key && entry.value->kind != YamlNode::Kind::kNull) return entry.value;
  }
  return nullptr;
}

// Returns the values that the mapping `node` gives: 0 and false are values as well. `decoded` is
// what was read from the mapping.
std::vector<GivenValue> valuesIn(const YamlNode* node, capnp::DynamicStruct::Reader decoded) {
  std::vector<GivenValue> values;
  if (node == nullptr) return values;
  for (auto field : decoded.getSchema().getFields()) {
    auto key = codec::keyOf(field);
    if (valueAt(*node, key) == nullptr) continue;
    auto value = decoded.get(field);
    bool flag = field.getType().isBool();
    values.push_back({key, flag ? uint32_t(value.as<bool>()) : value.as<uint32_t>()});
  }
  return values;
}

void fillRows(capnp::List<EthernetValue>::Builder out, const std::vector<GivenValue>& values) {
  for (auto i : kj::indices(values)) {
    auto row = out[static_cast<unsigned>(i)];
    row.setKey(values[i].key);
    row.setValue(values[i].value);
  }
}

}  // namespace

EthernetDocuments::EthernetDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), links(0) {}

void EthernetDocuments::write() {
  auto network = view.asReader().getMachine().getNetwork();
  links.write(network.getEthernet(),
              [&](unsigned size) { return view.getMachine().getNetwork().initEthernet(size); });
}

void EthernetDocuments::ethernet(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::EthernetConfig>(document)) {
    auto& node = document.node;
    if (!isLinkName(d->getName())) {
      decoder.report(document, "name",
                     kj::str(jsonString(d->getName()), " is not a valid link name"),
                     "use the name of a link in the kernel");
    }
    for (auto i : kj::indices(d->getWakeOnLan())) {
      auto mode = d->getWakeOnLan()[i];
      if (std::find(std::begin(kWakeModes), std::end(kWakeModes), mode) != std::end(kWakeModes)) {
        continue;
      }
      decoder.report(document, kj::str("wakeOnLan[", i, "]"),
                     kj::str(jsonString(mode), " is not a mode of Wake-on-LAN"),
                     kj::str("use ", kj::strArray(kWakeModes, ", ")));
    }
    kj::String path;
    auto out = links.add(kEthernet, path);
    out.setName(d->getName());
    auto rings = valuesIn(valueAt(node, "rings"), d->getRings()),
         channels = valuesIn(valueAt(node, "channels"), d->getChannels());
    fillRows(out.initRings(static_cast<unsigned>(rings.size())), rings);
    fillRows(out.initChannels(static_cast<unsigned>(channels.size())), channels);
    features(document, d->getFeatures(), out);
    out.setWakeOnLan(d->getWakeOnLan());
    out.setSetsWakeOnLan(valueAt(node, "wakeOnLan") != nullptr);
    decoder.from(document, "", path);
  }
}

void EthernetDocuments::features(Document& document, capnp::List<EthernetFeature>::Reader list,
                                 Ethernet::Builder out) {
  std::vector<EthernetFeature::Reader> given;
  auto node = valueAt(document.node, "features");
  for (auto feature : list) {
    if (node != nullptr && valueAt(*node, feature.getKey()) != nullptr) given.push_back(feature);
  }
  auto rows = out.initFeatures(static_cast<unsigned>(given.size()));
  for (auto i : kj::indices(given)) {
    rows.setWithCaveats(static_cast<unsigned>(i), given[i]);
  }
}

}  // namespace talos::config
