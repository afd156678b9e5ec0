// Strategic merges: what patches of Talos' documentation and of published configs mean.
#include <gtest/gtest.h>

#include <string>

#include "talosctl/config/patch-value.h"

namespace talos {
namespace {

// Returns the result, or the problems after "!". `warnings` receives the problems of a result.
kj::String merged(kj::StringPtr config, kj::StringPtr patch, Problems& warnings) {
  KJ_IF_MAYBE (text, applyPatch(config, patch, warnings, {"config", "patch"})) {
    EXPECT_FALSE(hasErrors(warnings)) << render(warnings).cStr();
    return kj::mv(*text);
  }
  return kj::str("!", render(warnings));
}

// Returns true if both texts hold equal documents, in the same order.
bool meansTheSame(kj::StringPtr text, kj::StringPtr expected) {
  Problems problems;
  codec::YamlStream a(text, "result", problems), b(expected, "expected", problems);
  EXPECT_EQ(problems.size(), 0u) << render(problems).cStr();
  if (problems.size() > 0 || a.documents().size() != b.documents().size()) return false;
  for (auto i : kj::indices(a.documents())) {
    auto x = patch::valueOf(*a.documents()[i]), y = patch::valueOf(*b.documents()[i]);
    if (!patch::isEqual(*x, *y)) return false;
  }
  return true;
}

struct MergeCase {
  const char* name;
  const char* config;
  const char* patch;
  const char* expected;  // nullptr: the text of the config, byte for byte
};

void expectMerged(const MergeCase& row) {
  Problems warnings;
  auto result = merged(row.config, row.patch, warnings);
  EXPECT_EQ(warnings.size(), 0u) << row.name << ": " << render(warnings).cStr();
  if (row.expected == nullptr) {
    EXPECT_STREQ(row.config, result.cStr()) << row.name;
  } else {
    EXPECT_TRUE(meansTheSame(result, row.expected)) << row.name << ":\n" << result.cStr();
  }
}

// Compares the whole text, or the problems.
void expectText(const MergeCase& row) {
  Problems problems;
  EXPECT_STREQ(row.expected, merged(row.config, row.patch, problems).cStr()) << row.name;
}

// Catches: a section in which everything is commented out, and which erases that of the config; a
// host name that a template left empty; false or a deliberate 0 that is taken for nothing.
TEST(PatchMerge, AnEmptyValueChangesNothing) {
  const MergeCase rows[] = {
      {"a section with comments only",
       "machine: {network: {hostname: worker1, interfaces: [{interface: eth0}]}}\n",
       "machine:\n  network:\n  #  hostname: later\n  nodeLabels: {a: b}\n",
       "machine: {network: {hostname: worker1, interfaces: [{interface: eth0}]}, nodeLabels: {a: "
       "b}}\n"},
      {"a null section and an empty text",
       "machine:\n  install: {disk: /dev/sda}\n  network: {hostname: worker1}\ncluster: {id: x}\n",
       "machine:\n  install:\n  network:\n    hostname: \"\"\ncluster: {}\n", nullptr},
      {"a null component", "cluster:\n  apiServer: {certSANs: [a], extraArgs: {v: \"2\"}}\n",
       "cluster:\n  apiServer:\n", nullptr},
      {"a null section that the config lacks", "machine: {type: worker}\n",
       "machine:\n  network:\n", nullptr},
      {"an empty text that the config lacks", "machine: {network: {}}\n",
       "machine: {network: {hostname: ''}}\n", nullptr},
      {"empty collections", "machine: {certSANs: [a], sysctls: {b: c}}\n",
       "machine: {certSANs: [], sysctls: {}}\n", nullptr},
      {"null spelled out", "machine: {certSANs: [a], type: worker}\n",
       "machine: {certSANs: null, type: ~}\n", nullptr},
      {"0", "machine: {network: {interfaces: [{interface: eth0, mtu: 9000}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, mtu: 0}]}}\n", nullptr},
      {"0 s", "machine: {time: {bootTimeout: 2m}}\n", "machine: {time: {bootTimeout: 0s}}\n",
       nullptr},
      {"a null argument", "cluster: {apiServer: {extraArgs: {v: '2'}}}\n",
       "cluster: {apiServer: {extraArgs: {v: }}}\n", nullptr},
      {"false", "machine: {network: {interfaces: [{interface: eth0, dhcp: true}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, dhcp: false}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, dhcp: false}]}}\n"},
      {"a text that is 0", "machine: {sysctls: {vm.swappiness: '60'}}\n",
       "machine: {sysctls: {vm.swappiness: 0}}\n", "machine: {sysctls: {vm.swappiness: 0}}\n"},
      {"a label without a value", "machine: {nodeLabels: {a: b, c: d}}\n",
       "machine: {nodeLabels: {a: '', e: ''}}\n", "machine: {nodeLabels: {a: b, c: d, e: ''}}\n"},
      {"a new item is kept as it is", "machine: {disks: [{device: /dev/a}]}\n",
       "machine: {disks: [{device: /dev/b, slot: 0, key: {}}]}\n",
       "machine: {disks: [{device: /dev/a}, {device: /dev/b, slot: 0, key: {}}]}\n"},
      {"a value for a null section", "machine:\n  network:\n",
       "machine: {network: {hostname: a}}\n", "machine: {network: {hostname: a}}\n"},
      {"an option of a bond document", "kind: BondConfig\nname: b\nmiimon: 100\nmtu: 9000\n",
       "apiVersion: v1alpha1\nkind: BondConfig\nname: b\nmiimon: 0\nmtu: 0\n",
       "kind: BondConfig\nname: b\nmiimon: 0\nmtu: 9000\napiVersion: v1alpha1\n"},
  };
  for (auto& row : rows) expectMerged(row);
}

// Catches: a second entry for the same link, VLAN or plugin; a list that is replaced instead of
// appended to, and the reverse.
TEST(PatchMerge, ListsMergeByTheirRules) {
  const MergeCase rows[] = {
      {"interfaces by deviceSelector",
       "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:11:*'}, addresses: "
       "[192.0.2.3/24]}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:11:*'}, mtu: 9000, "
       "vip: {ip: 192.0.2.50}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:11:*'}, addresses: "
       "[192.0.2.3/24], mtu: 9000, vip: {ip: 192.0.2.50}}]}}\n"},
      {"another deviceSelector is another link",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*'}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*', driver: e}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*'}}, {deviceSelector: "
       "{busPath: '0*', driver: e}}]}}\n"},
      {"a key without a value in the patch's deviceSelector",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*'}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*', driver: }, mtu: "
       "9000}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*'}, mtu: 9000}]}}\n"},
      {"a key without a value in the config's deviceSelector",
       "machine: {network: {interfaces: [{deviceSelector: {driver: null, busPath: '0*'}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {busPath: '0*'}, mtu: 9000}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {driver: null, busPath: '0*'}, mtu: "
       "9000}]}}\n"},
      {"interface comes before deviceSelector",
       "machine: {network: {interfaces: [{deviceSelector: {driver: e}}, {interface: eth0}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, deviceSelector: {driver: e}}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {driver: e}}, {interface: eth0, "
       "deviceSelector: {driver: e}}]}}\n"},
      {"VLANs by vlanId",
       "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7, dhcp: true}]}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7, mtu: 1400}, "
       "{vlanId: 8}]}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7, dhcp: true, mtu: "
       "1400}, {vlanId: 8}]}]}}\n"},
      {"admission plugins by name",
       "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: "
       "{enforce: baseline}, exemptions: {namespaces: [kube-system]}}}]}}\n",
       "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: "
       "{namespaces: [rook-ceph]}}}]}}\n",
       "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: "
       "{enforce: baseline}, exemptions: {namespaces: [kube-system, rook-ceph]}}}]}}\n"},
      {"other lists are appended to", "machine: {certSANs: [a], files: [{path: /a}]}\n",
       "machine: {certSANs: [a, b], files: [{path: /a}]}\n",
       "machine: {certSANs: [a, a, b], files: [{path: /a}, {path: /a}]}\n"},
      {"subnets are replaced", "cluster: {network: {podSubnets: [a], serviceSubnets: [b]}}\n",
       "cluster: {network: {podSubnets: [c, d], serviceSubnets: []}}\n",
       "cluster: {network: {podSubnets: [c, d], serviceSubnets: []}}\n"},
      {"null subnets are not", "cluster: {network: {podSubnets: [a]}}\n",
       "cluster: {network: {podSubnets: }}\n", nullptr},
      {"the audit policy is replaced",
       "cluster: {apiServer: {auditPolicy: {kind: Policy, rules: [{level: Metadata}]}}}\n",
       "cluster: {apiServer: {auditPolicy: {rules: [{level: None}]}}}\n",
       "cluster: {apiServer: {auditPolicy: {rules: [{level: None}]}}}\n"},
      {"an empty audit policy replaces nothing", "cluster: {apiServer: {auditPolicy: {a: b}}}\n",
       "cluster: {apiServer: {auditPolicy: {}}}\n", nullptr},
      {"each argument is replaced", "cluster: {apiServer: {extraArgs: {a: [x], b: y}}}\n",
       "cluster: {apiServer: {extraArgs: {a: [z]}}}\n",
       "cluster: {apiServer: {extraArgs: {a: [z], b: y}}}\n"},
      {"two items of a list that the config lacks", "machine: {}\n",
       "machine: {network: {interfaces: [{interface: eth0, addresses: [a]}, {interface: eth1}, "
       "{interface: eth0, addresses: [b], mtu: 9000}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, addresses: [a, b], mtu: 9000}, "
       "{interface: eth1}]}}\n"},
      {"two VLANs of a list that the item lacks",
       "machine: {network: {interfaces: [{interface: eth0}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7}, {vlanId: 7, mtu: "
       "1400}]}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7, mtu: 1400}]}]}}\n"},
      {"two items in the place of null", "machine: {network: {interfaces: }}\n",
       "machine: {network: {interfaces: [{interface: eth0}, {interface: eth0, mtu: 9000}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, mtu: 9000}]}}\n"},
      {"a list that the config lacks", "machine: {type: worker}\n", "machine: {certSANs: [a]}\n",
       "machine: {type: worker, certSANs: [a]}\n"},
  };
  for (auto& row : rows) expectMerged(row);
}

// Catches: an item that stays although the patch deletes it, or another item that is deleted.
TEST(PatchMerge, DeletesByAKeyOfTheItem) {
  const MergeCase rows[] = {
      {"an interface by deviceSelector",
       "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:11:*'}, dhcp: true}, "
       "{interface: eth5, dhcp: true}]}}\n",
       "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: '02:11:*'}, $patch: "
       "delete}]}}\n",
       "machine: {network: {interfaces: [{interface: eth5, dhcp: true}]}}\n"},
      {"an admission plugin",
       "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {kind: "
       "P}}]}}\n",
       "cluster: {apiServer: {admissionControl: [{name: PodSecurity, $patch: delete}]}}\n",
       "cluster: {apiServer: {admissionControl: []}}\n"},
      {"deletes come first",
       "machine: {network: {interfaces: [{interface: eth0, addresses: [a]}, {interface: eth1, "
       "addresses: [b]}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: eth1, "
       "addresses: [c]}, {interface: eth0, dummy: true}]}}\n",
       "machine: {network: {interfaces: [{interface: eth1, addresses: [b, c]}, {interface: eth0, "
       "dummy: true}]}}\n"},
      {"a delete after its merge",
       "machine: {network: {interfaces: [{interface: eth0, addresses: [a]}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, dummy: true}, {interface: eth0, $patch: "
       "delete}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, dummy: true}]}}\n"},
      {"a VLAN, and the directive first",
       "machine: {network: {interfaces: [{interface: e, vlans: [{vlanId: 7}, {vlanId: 8}]}]}}\n",
       "machine: {network: {interfaces: [{interface: e, vlans: [{$patch: delete, vlanId: "
       "\"7\"}]}]}}\n",
       "machine: {network: {interfaces: [{interface: e, vlans: [{vlanId: 8}]}]}}\n"},
      {"a disk",
       "machine: {disks: [{device: /dev/a}, {device: /dev/b, partitions: [{size: 1GB}]}]}\n",
       "machine: {disks: [{device: /dev/b, $patch: delete}]}\n",
       "machine: {disks: [{device: /dev/a}]}\n"},
      {"a host entry",
       "machine: {network: {extraHostEntries: [{ip: 192.0.2.1, aliases: [a]}, {ip: 192.0.2.2}]}}\n",
       "machine: {network: {extraHostEntries: [{ip: 192.0.2.1, $patch: delete}, {ip: "
       "192.0.2.3}]}}\n",
       "machine: {network: {extraHostEntries: [{ip: 192.0.2.2}, {ip: 192.0.2.3}]}}\n"},
      {"the first of two equal manifests",
       "cluster: {inlineManifests: [{name: a, contents: x}, {name: a, contents: y}]}\n",
       "cluster: {inlineManifests: [{name: a, $patch: delete}]}\n",
       "cluster: {inlineManifests: [{name: a, contents: y}]}\n"},
      {"a single value, a list and a key of a map",
       "machine: {network: {hostname: a}, certSANs: [b], sysctls: {c: d, e: f}}\n",
       "machine: {network: {hostname: {$patch: delete}}, certSANs: {$patch: delete}, sysctls: {c: "
       "{$patch: delete}}}\n",
       "machine: {network: {}, sysctls: {e: f}}\n"},
      {"a key of an item",
       "machine: {network: {interfaces: [{interface: eth0, mtu: 9000, dhcp: true}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, mtu: {$patch: delete}}]}}\n",
       "machine: {network: {interfaces: [{interface: eth0, dhcp: true}]}}\n"},
  };
  for (auto& row : rows) expectMerged(row);
}

// Catches: a list or mapping that is emptied, or loses its other parts, because the patch deletes
// one part of it; a parent of a deleted part that stays in the patch.
TEST(PatchMerge, DeletesOnePartOfWhatIsReplacedAsAWhole) {
  const MergeCase rows[] = {
      {"an entry of a list",
       "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\n"
       "ingress: [{subnet: 192.0.2.0/24}, {subnet: 198.51.100.0/24}]\n",
       "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\n"
       "ingress: [{subnet: 192.0.2.0/24, $patch: delete}]\n",
       "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\n"
       "ingress: [{subnet: 198.51.100.0/24}]\n"},
      {"an entry of a list, beside a new entry",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\n"
       "neighbors: [{peer: x}, {peer: y}]\n",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\n"
       "neighbors: [{peer: x, $patch: delete}, {peer: z}]\n",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\nneighbors: [{peer: z}]\n"},
      {"a key of the audit policy",
       "cluster: {apiServer: {auditPolicy: {kind: Policy, omitStages: [a]}}}\n",
       "cluster: {apiServer: {auditPolicy: {omitStages: {$patch: delete}}}}\n",
       "cluster: {apiServer: {auditPolicy: {kind: Policy}}}\n"},
      {"a container of a pod",
       "apiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: p\n"
       "pod: {kind: Pod, spec: {containers: [{name: a}, {name: b}]}}\n",
       "apiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: p\n"
       "pod: {spec: {containers: [{name: a, $patch: delete}]}}\n",
       "apiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: p\n"
       "pod: {kind: Pod, spec: {containers: [{name: b}]}}\n"},
      {"an emptied parent beside new content",
       "apiVersion: v1alpha1\nkind: CRIBaseRuntimeSpecConfig\n"
       "overrides: {process: {a: 1, b: 2}, c: 3}\n",
       "apiVersion: v1alpha1\nkind: CRIBaseRuntimeSpecConfig\n"
       "overrides: {process: {a: {$patch: delete}}, d: 4}\n",
       "apiVersion: v1alpha1\nkind: CRIBaseRuntimeSpecConfig\noverrides: {d: 4}\n"},
      {"an empty list clears",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\nadvertise: [x]\n",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\nadvertise: []\n",
       "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\nadvertise: []\n"},
  };
  for (auto& row : rows) expectMerged(row);
  expectText(
      {"a part of a rule of images",
       "apiVersion: v1alpha1\nkind: ImageVerificationConfig\n"
       "rules: [{image: a/*, deny: true, keyless: {issuer: x}}]\n",
       "apiVersion: v1alpha1\nkind: ImageVerificationConfig\n"
       "rules: [{image: a/*, keyless: {$patch: delete}}]\n",
       "!patch:3:32: rules[]: cannot delete a part of an item that the patch replaces; write "
       "the item without this part\n"});
}

// Catches: a delete that finds nothing and says nothing.
TEST(PatchMerge, ADeleteThatFindsNothingIsRefused) {
  const MergeCase rows[] = {
      {"a key", "machine: {}\n", "machine:\n  network:\n    hostname: {$patch: delete}\n",
       "!patch:3:16: machine.network: nothing to delete: there is no such key; correct it, or "
       "remove it from the patch\n"},
      {"a key of an existing parent", "machine: {network: {}}\n",
       "machine:\n  network:\n    hostname: {$patch: delete}\n",
       "!patch:3:5: machine.network.hostname: nothing to delete: there is no such key; correct it, "
       "or remove it from the patch\n"},
      {"an item", "machine: {network: {interfaces: [{interface: eth0}]}}\n",
       "machine:\n  network:\n    interfaces:\n      - interface: eth1\n        $patch: delete\n",
       "!patch:4:9: machine.network.interfaces: nothing to delete: no item of the list has this "
       "\"interface\"; correct it, or remove it from the patch\n"},
      {"a VLAN of a link that is missing", "machine: {network: {interfaces: []}}\n",
       "machine:\n  network:\n    interfaces:\n      - interface: eth1\n        vlans:\n"
       "          - vlanId: 7\n            $patch: delete\n",
       "!patch:7:13: machine.network.interfaces: nothing to delete: the list has no such item; "
       "correct it, or remove it from the patch\n"},
      {"a list that is a mapping", "machine: {disks: {}}\n",
       "machine:\n  disks:\n    - device: a\n      $patch: delete\n",
       "!patch:4:7: machine.disks: nothing to delete: this is not a list; correct it, or remove it "
       "from the patch\n"},
      {"an item without a name", "machine: {disks: [{device: a}]}\n",
       "machine: {disks: [{$patch: delete}]}\n",
       "!patch:1:19: machine.disks: cannot delete from this list: the entry does not name an item; "
       "add a key of the item, such as name: VALUE\n"},
      {"in another document", "machine: {}\n---\nkind: RegistryMirrorConfig\nname: a\n",
       "apiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: a\nendpoints: {$patch: delete}\n",
       "!patch:4:1: endpoints: nothing to delete: there is no such key; correct it, or remove it "
       "from the patch\n"},
  };
  for (auto& row : rows) expectText(row);
}

// Catches: a document that is merged into the machine config, refused, or lost.
TEST(PatchMerge, DocumentsMergeByKindVersionAndName) {
  const MergeCase rows[] = {
      {"a new document", "machine: {type: worker}\n",
       "machine: {nodeLabels: {a: b}}\n---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: "
       "data\nprovisioning: {diskSelector: {match: disk.transport == \"sata\"}, minSize: 100GiB}\n",
       "machine: {type: worker, nodeLabels: {a: b}}\n---\napiVersion: v1alpha1\nkind: "
       "UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: disk.transport == "
       "\"sata\"}, minSize: 100GiB}\n"},
      {"an existing document",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo\n"
       "environment: [A=1]\n",
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo\nenvironment: [B=2]\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo\n"
       "environment: [A=1, B=2]\n"},
      {"another name, and no newline at the end",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo",
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: bar\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo\n---\n"
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: bar\n"},
      {"another document after a text without a newline at its end",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: |\n  foo",
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: bar\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: foo\n---\n"
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: bar\n"},
      {"a document without a name",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: OOMConfig\na: 1\n",
       "apiVersion: v1alpha1\nkind: OOMConfig\nb: 2\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: OOMConfig\na: 1\nb: 2\n"},
      {"config files by mountPath",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: a\n"
       "configFiles: [{mountPath: /a, content: x}]\n",
       "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: a\n"
       "configFiles: [{mountPath: /a, content: y}, {mountPath: /b, content: z}]\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: a\n"
       "configFiles: [{mountPath: /a, content: y}, {mountPath: /b, content: z}]\n"},
      {"a rule of images is replaced in its place",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ImageVerificationConfig\n"
       "rules: [{image: a/*, deny: true}, {image: b/*}]\n",
       "apiVersion: v1alpha1\nkind: ImageVerificationConfig\n"
       "rules: [{image: a/*, skip: true}, {image: c/*}]\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: ImageVerificationConfig\n"
       "rules: [{image: a/*, skip: true}, {image: b/*}, {image: c/*}]\n"},
      {"network rules are replaced",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: a\n"
       "portSelector: {ports: [1], protocol: tcp}\ningress: [{subnet: 192.0.2.0/24}]\n",
       "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: a\n"
       "portSelector: {ports: [2, 3]}\ningress: []\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: a\n"
       "portSelector: {ports: [2, 3], protocol: tcp}\ningress: []\n"},
      {"a document that is named three times",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: r\n"
       "endpoints: [{url: a}]\n",
       "apiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: r\nendpoints: {$patch: delete}\n"
       "---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: r\nendpoints: [{url: x}]\n"
       "---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: r\nskipFallback: true\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: r\n"
       "endpoints: [{url: x}]\nskipFallback: true\n"},
      {"a new document that is named twice", "machine: {}\n",
       "apiVersion: v1alpha1\nkind: SysctlConfig\nparams: {a: '1'}\n---\napiVersion: v1alpha1\n"
       "kind: SysctlConfig\nparams: {a: 0, b: ''}\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: SysctlConfig\nparams: {a: 0, b: ''}\n"},
      {"an item of another document",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n"
       "addresses: [{address: 192.0.2.1/24}]\nmtu: 9000\n",
       "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{address: 192.0.2.1/24, "
       "$patch: delete}, {address: 192.0.2.2/24}]\nmtu: {$patch: delete}\n",
       "machine: {}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n"
       "addresses: [{address: 192.0.2.2/24}]\n"},
      {"the machine config twice: deletes come first", "machine: {network: {hostname: a}}\n",
       "machine: {network: {hostname: b}}\n---\nmachine: {network: {hostname: {$patch: "
       "delete}}}\n",
       "machine: {network: {hostname: b}}\n"},
      {"a machine config for documents", "apiVersion: v1alpha1\nkind: OOMConfig\n",
       "machine: {type: worker}\n",
       "apiVersion: v1alpha1\nkind: OOMConfig\n---\nmachine: {type: worker}\n"},
      {"a version that the config lacks", "machine: {a: 1}\n", "version: v1alpha1\n",
       "machine: {a: 1}\nversion: v1alpha1\n"},
      {"no machine config, and nothing for it", "apiVersion: v1alpha1\nkind: OOMConfig\n",
       "{}\n---\napiVersion: v1alpha1\nkind: OOMConfig\na: 1\n",
       "apiVersion: v1alpha1\nkind: OOMConfig\na: 1\n"},
      {"empty documents", "machine: {a: 1}\n", "---\n---\nmachine: {b: 2}\n---\n",
       "machine: {a: 1, b: 2}\n"},
  };
  for (auto& row : rows) expectMerged(row);
}

// Catches: a document of the patch without its comments, a document that is deleted with a part of
// another one, and two changed documents of which one is damaged.
TEST(PatchMerge, DocumentsKeepTheirText) {
  const char* three =
      "# file\nmachine:\n  type: worker # w\n---\n# the volume\napiVersion: v1alpha1\nkind: "
      "UserVolumeConfig\nname: data # d\n---\napiVersion: v1alpha1\nkind: OOMConfig # o\n";
  const MergeCase rows[] = {
      {"a new document", "machine:\n  type: worker # w\n",
       "machine:\n  nodeLabels: {a: b}\n---\n# the volume\napiVersion: v1alpha1\nkind: "
       "UserVolumeConfig\nname: data # d\n",
       "machine:\n  type: worker # w\n  nodeLabels:\n    a: b\n---\n# the volume\napiVersion: "
       "v1alpha1\nkind: UserVolumeConfig\nname: data # d\n"},
      {"a document is removed", three,
       "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\n$patch: delete\n",
       "# file\nmachine:\n  type: worker # w\n---\napiVersion: v1alpha1\nkind: OOMConfig # o\n"},
      {"the last document is removed", three,
       "apiVersion: v1alpha1\nkind: OOMConfig\n$patch: delete\n",
       "# file\nmachine:\n  type: worker # w\n---\n# the volume\napiVersion: v1alpha1\nkind: "
       "UserVolumeConfig\nname: data # d\n"},
      {"the first document is removed",
       "apiVersion: v1alpha1\nkind: OOMConfig\n---\nmachine: {} # m\n",
       "apiVersion: v1alpha1\nkind: OOMConfig\n$patch: delete\n", "---\nmachine: {} # m\n"},
      {"two documents change", three,
       "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nsize: 1\n---\nmachine: {type: "
       "init}\n",
       "# file\nmachine:\n  type: init # w\n---\n# the volume\napiVersion: v1alpha1\nkind: "
       "UserVolumeConfig\nname: data # d\nsize: 1\n---\napiVersion: v1alpha1\nkind: OOMConfig # "
       "o\n"},
  };
  for (auto& row : rows) expectText(row);
}

// Catches: a document that no reader can take for one of a config.
TEST(PatchMerge, DocumentsNeedAKindAndAVersion) {
  const MergeCase rows[] = {
      {"no version", "machine: {}\n", "kind: OOMConfig\n",
       "!patch:1:1: apiVersion: missing in a document with kind \"OOMConfig\"; use v1alpha1\n"},
      {"another version", "machine: {}\n", "apiVersion: v1\nkind: Secret\nname: a\n",
       "!patch:1:1: apiVersion: not valid in a document with kind \"Secret\" and name "
       "\"a\"; use v1alpha1\n"},
      {"a list as the kind", "machine: {}\n", "apiVersion: v1alpha1\nkind: [a]\n",
       "!patch:1:1: kind: not a valid kind of a document; use for example UserVolumeConfig\n"},
      {"the machine config cannot go", "machine: {}\n", "machine: {}\n$patch: delete\n",
       "!patch:1:1: cannot remove the whole document\n"},
  };
  for (auto& row : rows) expectText(row);
}

// Catches: an error for a file in which a template has left nothing; silence about a patch, or a
// delete, that has no effect.
TEST(PatchMerge, WhatHasNoEffectIsAWarning) {
  const char* config = "version: v1alpha1\nmachine:   {a: 1} # x\n---\nkind: OOMConfig\n";
  const char* nothing = "patch: the patch is empty and changes nothing\n";
  const char* absent =
      "patch:1:1: nothing to delete: the config has no document with kind \"UserVolumeConfig\" and "
      "name \"a\"\n";
  struct {
    const char* patch;
    const char* warning;
  } rows[] = {
      {"", nothing},
      {"\n\n", nothing},
      {"# machine:\n#   type: worker\n", nothing},
      {"---\n", nothing},
      {"null\n", nothing},
      {"---\n# a\n---\n# b\n", nothing},
      {"{}\n", nothing},
      {"version: v1alpha1\n", nothing},
      {"---\nversion: v1alpha1\n---\n{}\n", nothing},
      {"apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\n$patch: delete\n", absent},
      {"apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nmount: {secure: {$patch: delete}}\n",
       absent},
  };
  for (auto& row : rows) {
    Problems warnings;
    EXPECT_STREQ(config, merged(config, row.patch, warnings).cStr()) << row.patch;
    ASSERT_EQ(warnings.size(), 1u) << row.patch;
    EXPECT_EQ(warnings[0].severity, Problem::Severity::kWarning) << row.patch;
    warnings[0].severity = Problem::Severity::kError;  // of which the text has no prefix
    EXPECT_STREQ(row.warning, render(warnings).cStr()) << row.patch;
  }
}

}  // namespace
}  // namespace talos
