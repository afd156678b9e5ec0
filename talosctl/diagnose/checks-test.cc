// Tests each check on observations: its finding, and the same observations without the cause.
#include <set>

#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {

void checkCases(const std::vector<CheckCase>& cases) {
  for (auto& one : cases) {
    SCOPED_TRACE(std::string(one.check) + ": " + one.text);
    Diagnosed ill(one.fires);
    KJ_IF_MAYBE (finding, ill.find(one.check)) {
      std::string all = finding->getSummary().cStr();
      for (auto evidence : finding->getEvidence())
        all += std::string("\n") + evidence.getText().cStr();
      EXPECT_THAT(all, testing::HasSubstr(one.text));
      bool consequence = finding->getConfidence() == "consequence";
      if (!consequence) EXPECT_EQ(finding->getConfidence() == "certain", one.certain) << all;
      EXPECT_GT(finding->getEvidence().size(), 0u) << "a finding without evidence: " << all;
    } else {
      ADD_FAILURE() << "nothing found in\n" << one.fires << ill.text();
    }
    Diagnosed well(one.silent);
    EXPECT_TRUE(well.find(one.check) == nullptr) << well.text();
  }
}

namespace {

// Cases from the access to a node to its network, time, trust and services.
std::vector<CheckCase> cases() {
  return {
      {"client-certificate", "has expired", true,
       "{now: 1700000000000000000, clientNotBefore: 1600000000, clientNotAfter: 1650000000}",
       "{now: 1700000000000000000, clientNotBefore: 1600000000, clientNotAfter: 1800000000}"},
      {"client-certificate", "not yet valid", false,
       "{now: 1500000000000000000, clientNotBefore: 1600000000, clientNotAfter: 1650000000, "
       "endpoints: [{host: a, error: 'tlsv1 alert bad certificate'}]}",
       "{now: 1500000000000000000, clientNotBefore: 1600000000, clientNotAfter: 1650000000}"},
      {"endpoint-unreachable", "nothing listens on its port", true,
       "endpoints: [{host: 10.5.0.2, error: 'cannot connect to endpoint 10.5.0.2: Connection "
       "refused'}]",
       "endpoints: []"},
      {"endpoint-unreachable", "is of another CA than that of the talosconfig", true,
       "endpoints: [{host: 10.5.0.2, error: 'TLS handshake with 10.5.0.2: certificate verify "
       "failed'}]",
       "endpoints: []"},
      {"endpoint-unreachable", "maintenance mode", true,
       "endpoints: [{host: 10.5.0.2, error: 'stage maintenance', maintenance: true}]",
       "endpoints: []"},
      {"endpoint-unreachable", "cannot resolve the name of endpoint", true,
       "endpoints: [{host: cp.example.org, error: 'cannot resolve \"cp.example.org\": Domain name "
       "not "
       "found'}]",
       "endpoints: []"},
      {"endpoint-unreachable", "does not answer", false,
       "endpoints: [{host: 10.5.0.2, error: 'no answer within 10s'}]", "endpoints: []"},
      {"node-down", "is down, or cut off", false,
       "nodes: [{address: 10.5.0.3, reach: silent, error: no answer within 10s}]",
       "nodes: [{address: 10.5.0.3}]"},
      {"node-down", "its apid does not listen", true,
       "nodes: [{address: 10.5.0.3, reach: silent, error: '10.5.0.3: Connection refused'}]",
       "nodes: [{address: 10.5.0.3}]"},
      {"node-certificate", "do not have the same CA", true,
       "nodes: [{address: 10.5.0.3, reach: refused, error: 'TLS handshake: certificate verify "
       "failed'}]",
       "nodes: [{address: 10.5.0.3}]"},
      {"maintenance", "no config", true,
       "nodes: [{address: 10.5.0.3, reach: maintenance, error: stage maintenance}]",
       "nodes: [{address: 10.5.0.3}]"},
      {"volume", "EPHEMERAL cannot be used", true,
       "nodes: [{address: a, volumes: [{label: EPHEMERAL, status: {phase: failed, errorMessage: no "
       "key opens it}}]}]",
       "nodes: [{address: a, volumes: [{label: EPHEMERAL, status: {phase: ready}}]}]"},
      {"boot", "userDisks: /dev/vdb", true,
       "nodes: [{address: a, status: {stage: failed, problems: ['userDisks: /dev/vdb is in "
       "use']}}]",
       "nodes: [{address: a, status: {stage: running}}]"},
      // Other checks report these two, with their remedies.
      {"boot", "reports a problem that stops it", false,
       "nodes: [{address: a, status: {stage: running, problems: [service a has failed]}}]",
       "nodes: [{address: a, status: {stage: running, problems: ['cannot set up the network: link "
       "dummy1: Operation not supported', Kubernetes has no Node object of this node; restart]}}]"},
      {"firmware",
       "the driver bnx2 of device 0000:03:00.0 did not find its firmware bnx2/mips.fw, "
       "bnx2/rv2p.fw; "
       "Debian's package firmware-bnx2 has it",
       false,
       "nodes: [{address: a, logs: [{id: kernel, lines: ["
       "'kern: warning: [2026-11-22T15:01:10Z]: bnx2 0000:03:00.0: Direct firmware load for "
       "bnx2/mips.fw failed with error -2', 'kern: err: [2026-11-22T15:01:10Z]: bnx2 0000:03:00.0: "
       "firmware: failed to load bnx2/rv2p.fw (-2)']}]}]",
       "nodes: [{address: a, logs: [{id: kernel, lines: ["
       "'bnx2 0000:03:00.0: firmware: failed to load bnx2/mips.fw (-2)', "
       "'bnx2 0000:03:00.0: firmware: direct-loading firmware bnx2/mips.fw']}]}]"},
      {"firmware", "of link eth3 did not find its firmware x/y.bin; the package that has it is not",
       false,
       "nodes: [{address: a, links: [{name: eth3, status: {busPath: '0000:04:00.0'}}], logs: [{id: "
       "kernel, lines: ['new 0000:04:00.0: Direct firmware load for x/y.bin failed with error "
       "-2']}]}]",
       "nodes: [{address: a, logs: [{id: kubelet, lines: ['new 0000:04:00.0: Direct firmware load "
       "for x/y.bin failed with error -2']}]}]"},
      {"landlock",
       "the kernel has no Landlock: a service that is in foreign hands is not kept from "
       "files; signals",
       true, "nodes: [{address: a, security: {landlock: 0, unrestricted: [files, signals]}}]",
       // An answer of a node of an earlier version.
       "nodes: [{address: a, security: {secureBoot: true}}]"},
      // An old Landlock is no fault: otherwise every container of an older host would have it.
      {"landlock", "the kernel has no Landlock: ", true,
       "nodes: [{address: a, security: {landlock: 0, unrestricted: [signals]}}]",
       "nodes: [{address: a, security: {landlock: 5, unrestricted: [signals]}}]"},
      {"upgrade", "was not healthy", true,
       "nodes: [{address: a, upgrade: {stage: failed, version: v0.9.0, reason: it was not healthy "
       "within "
       "5m}}]",
       "nodes: [{address: a, upgrade: {stage: done}}]"},
      {"hostname-duplicate", "two nodes have the host name m-1", true,
       "nodes: [{address: a, hostname: m-1}, {address: b, hostname: m-1}]",
       "nodes: [{address: a, hostname: m-1}, {address: b, hostname: m-2}]"},
      {"disk-full", "is full", true,
       "nodes: [{address: a, mounts: [{filesystem: /dev/vda6, size: 10000000000, available: 4096, "
       "mountedOn: /var}]}]",
       "nodes: [{address: a, mounts: [{filesystem: /dev/vda6, size: 10000000000, available: "
       "2000000000, "
       "mountedOn: /var}]}]"},
      {"disk-full", "nearly full", false,
       "nodes: [{address: a, mounts: [{size: 10000000000, available: 400000000, mountedOn: "
       "/var}]}]",
       "nodes: [{address: a, mounts: [{size: 10000000000, available: 4096, mountedOn: /boot}]}]"},
      {"link-carrier", "eth0 has no carrier", true,
       "nodes: [{address: a, links: [{name: eth0, status: {type: ether, linkState: false}}], "
       "network: "
       "{addressReady: true, problems: ['eth0: no carrier: no cable; waiting for carrier']}}]",
       // The config does not name the second link.
       "nodes: [{address: a, links: [{name: eth1, status: {type: ether, linkState: false}}], "
       "network: "
       "{addressReady: true}}]"},
      {"network-plan", "another host on this network has this address", true,
       "nodes: [{address: a, network: {addressReady: true, problems: ['10.5.0.2/24 on eth0: "
       "another host "
       "on this network has this address']}}]",
       "nodes: [{address: a, network: {addressReady: true, problems: ['eth0: no carrier: no "
       "cable']}}]"},
      {"metadata-service", "the user data of the machine: the kernel has no nf_tables", true,
       "nodes: [{address: a, metadataBlock: {problem: the kernel has no nf_tables}}]",
       "nodes: [{address: a, metadataBlock: {addresses: [169.254.169.254], dropped: 7}}]"},
      {"firewall", "the rules of the node's firewall: the kernel refused rules", true,
       "nodes: [{address: a, firewall: {problem: the kernel refused rules}}]",
       "nodes: [{address: a, firewall: {ingress: block, rules: 2, dropped: 7}}]"},
      {"firewall", "networkd has not set the rules of the node's firewall", false,
       "nodes: [{address: a, firewallSpecs: [firewall]}]",
       "nodes: [{address: a, firewallSpecs: [firewall], firewall: {ingress: accept, rules: 1}}]"},
      // networkd reports a status before it sets the rules; a status that is unknown shows nothing.
      {"firewall", "they are not in effect", false,
       "nodes: [{address: a, firewallSpecs: [firewall], firewall: {rules: 0}}]",
       "nodes: [{address: a, firewallSpecs: [firewall], unanswered: [{question: firewall, error: "
       "no answer}]}]"},
      {"address", "no DHCP server has given eth0", false,
       "nodes: [{address: a, network: {addressReady: true}, linkSpecs: [eth0], leases: [{id: "
       "dhcp4/eth0, "
       "operator: dhcp4, linkName: eth0, state: selecting}]}]",
       "nodes: [{address: a, network: {addressReady: true}, linkSpecs: [eth0], leases: [{id: "
       "dhcp4/eth0, "
       "operator: dhcp4, linkName: eth0, state: bound, addresses: [10.5.0.2/24]}]}]"},
      {"address", "no address of its own", true,
       "nodes: [{address: a, network: {addressReady: false}}]",
       "nodes: [{address: a, network: {addressReady: true}, nodeAddresses: [10.5.0.2]}]"},
      {"network-overlap", "podSubnets 10.5.0.0/16 overlaps the network of the node, 10.5.0.0/24",
       true,
       "nodes: [{address: a, linkSpecs: [eth0], facts: {podSubnets: [10.5.0.0/16], serviceSubnets: "
       "[10.96.0.0/12]}, addresses: [{address: 10.5.0.2/24, linkName: eth0}]}]",
       // A pods' bridge without a carrier is normal.
       "nodes: [{address: a, linkSpecs: [eth0], facts: {podSubnets: [10.244.0.0/16], "
       "serviceSubnets: "
       "[10.96.0.0/12]}, addresses: [{address: 10.5.0.2/24, linkName: eth0}, {address: "
       "10.244.0.1/24, "
       "linkName: cni0}]}]"},
      // A node in a container gets its link from its host. The subnet takes etcd's address away.
      {"network-overlap", "podSubnets 10.5.0.0/16 overlaps", true,
       "nodes: [{address: 10.5.0.2, facts: {podSubnets: [10.5.0.0/16]}, addresses: [{address: "
       "10.5.0.2/24, linkName: eth0}], status: {problems: ['stored, but not in effect: "
       "cluster.etcd: etcd waits for an address of this node']}}]",
       "nodes: [{address: 10.5.0.2, facts: {podSubnets: [10.6.0.0/16]}, addresses: [{address: "
       "10.5.0.2/24, linkName: eth0}, {address: 10.6.0.1/24, linkName: cni0}]}]"},
      {"network-overlap", "overlaps the network of services", true,
       "nodes: [{address: a, facts: {podSubnets: [10.96.0.0/16], serviceSubnets: [10.96.0.0/12]}}]",
       "nodes: [{address: a, facts: {podSubnets: [10.244.0.0/16], serviceSubnets: "
       "[10.96.0.0/12]}}]"},
      {"default-route", "no default route", false,
       "nodes: [{address: a, routes: [{dst: 10.5.0.0/24}], time: {problem: '10.9.0.1: network is "
       "unreachable'}}]",
       "nodes: [{address: a, routes: [{dst: 10.5.0.0/24}, {gateway: 10.5.0.1}], time: {problem: "
       "'10.9.0.1: network is unreachable'}}]"},
      // A node without a need for a default route has no fault.
      {"default-route", "no default route", false,
       "nodes: [{address: a, routes: [{dst: 10.5.0.0/24}], time: {problem: '10.9.0.1: no answer "
       "within 1000 ms'}}]",
       "nodes: [{address: a, routes: [{dst: 10.5.0.0/24}], time: {synced: true}}]"},
      {"resolver", "the name servers do not answer (10.5.0.1)", false,
       "nodes: [{address: a, resolvers: [10.5.0.1], time: {problem: 'cannot resolve "
       "\"pool.ntp.org\" "
       "within 5 s'}}]",
       "nodes: [{address: a, resolvers: [10.5.0.1], time: {synced: true}}]"},
      {"resolver", "a name is not known", false,
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"r.example/kubelet:v1\": lookup r.example on 10.5.0.1:53: no such host; retrying in 5 "
       "s'}]}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"r.example/kubelet:v1\": connection refused'}]}]}]"},
      {"time-sync", "not synchronised", true,
       "nodes: [{address: a, time: {problem: '10.5.0.1: no answer within 1000 ms'}}]",
       "nodes: [{address: a, time: {syncDisabled: true}}]"},
      {"clock", "2 years ahead of those of the others", true,
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000}, {address: "
       "b, "
       "clock: 1700000001000000000, clockAt: 1700000000000000000}]",
       "nodes: [{address: a, clock: 1700000000000000000, clockAt: 1700000000000000000}, {address: "
       "b, "
       "clock: 1700000001000000000, clockAt: 1700000000000000000}]"},
      // Either of two clocks may be wrong, whatever one of them follows.
      {"clock", "it follows the time server 10.5.0.9", false,
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000, time: "
       "{synced: true, server: 10.5.0.9}}]",
       "nodes: [{address: a, clock: 1700000001000000000, clockAt: 1700000000000000000, time: "
       "{synced: true, server: 10.5.0.9}}]"},
      {"clock", "the clock of this host is", false,
       "nodes: [{address: a, clock: 1794608000000000000, clockAt: 1700000000000000000}, {address: "
       "b, "
       "clock: 1794608000000000000, clockAt: 1700000000000000000}]",
       "nodes: [{address: a}, {address: b}]"},
      {"authority-expired", "the CA of Kubernetes (cluster.ca) has expired", true,
       "{now: 1700000000000000000, nodes: [{address: a, facts: {authorities: [{key: cluster.ca, "
       "notBefore: 1600000000, notAfter: 1650000000}]}}]}",
       "{now: 1700000000000000000, nodes: [{address: a, facts: {authorities: [{key: cluster.ca, "
       "notBefore: 1600000000, notAfter: 1800000000}]}}]}"},
      {"authority-differs", "cluster.ca is not that of a", true,
       "{now: 5000000000, nodes: [{address: a, controlPlane: true, facts: {authorities: [{key: "
       "cluster.ca, fingerprint: one, notAfter: 9}]}}, {address: b, facts: {authorities: [{key: "
       "cluster.ca, fingerprint: two, notAfter: 9}]}}]}",
       "{now: 5000000000, nodes: [{address: a, controlPlane: true, facts: {authorities: [{key: "
       "cluster.ca, fingerprint: one, notAfter: 9}]}}, {address: b, facts: {authorities: [{key: "
       "cluster.ca, fingerprint: one, notAfter: 9}]}}]}"},
      {"join", "refuses the token", true,
       "nodes: [{address: b, reach: unverified, services: [{id: apid, state: running, health: "
       "{unknown: "
       "false, lastMessage: '10.5.0.2: wrong token; use machine.token of the control-plane "
       "nodes'}}]}]",
       "nodes: [{address: b, joins: true, join: {ready: true}}]"},
      {"join", "nothing listens on port 50001", true,
       "nodes: [{address: b, joins: true, join: {message: '10.5.0.2:50001: Connection refused; "
       "next try "
       "in 5 s'}}]",
       "nodes: [{address: b}]"},
      {"containerd", "containerd does not run", true,
       "nodes: [{address: a, services: [{id: cri, state: waiting, checked: true, events: "
       "[{message: "
       "Process (PID 82) exited with status 1; restarting in 3.3 s}]}]}]",
       "nodes: [{address: a, services: [{id: cri, state: running, checked: true, health: {unknown: "
       "false, healthy: true}}]}]"},
      // It has only been started.
      {"containerd", "containerd does not run", false,
       "nodes: [{address: a, services: [{id: cri, state: running, checked: true, events: "
       "[{message: "
       "Started /bin/containerd (PID 15)}]}]}]",
       "nodes: [{address: a, services: [{id: cri, state: running, checked: true, health: {unknown: "
       "false, healthy: true}}]}]"},
      {"service-crash", "the program of the service vipd has crashed", true,
       "nodes: [{address: a, services: [{id: vipd, state: running, uptime: 4000000000000, events: "
       "[{message: 'Process (PID 7) killed by signal 11 (Segmentation fault); crash report vipd-1; "
       "restarting', uptime: 500000000000}]}]}]",
       "nodes: [{address: a, services: [{id: vipd, state: running, uptime: 4000000000000, events: "
       "[{message: 'Process (PID 7) killed by signal 11 (Segmentation fault); crash report vipd-1; "
       "restarting', uptime: 300000000000}]}]}]"},
      {"service", "the service networkd is not healthy", true,
       "nodes: [{address: a, services: [{id: networkd, state: running, health: {unknown: false, "
       "lastMessage: no answer}}]}]",
       "nodes: [{address: a, services: [{id: networkd, state: running, health: {unknown: false, "
       "healthy: "
       "true}}]}]"},
      {"registry", "no image can be pulled from the registry 10.5.0.1:5000: nothing listens there",
       true,
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"10.5.0.1:5000/kubelet:v1\": dial tcp 10.5.0.1:5000: connect: connection refused; "
       "retrying in "
       "5 s'}]}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running, events: [{message: 'cannot "
       "pull "
       "\"10.5.0.1:5000/kubelet:v1\": connection refused'}]}]}]"},
      {"registry", "its certificate is not trusted", true,
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"r.example/kubelet:v1\": Head \"https://r.example/v2/kubelet/manifests/v1\": x509: "
       "certificate "
       "signed by unknown authority; set machine.registries.config.<host>.tls.ca'}]}]}]",
       "nodes: [{address: a}]"},
      // If a registry has mirrors, it is no fault that the registry itself cannot be reached;
      // containerd's log names the mirror that cannot be reached.
      {"registry", "no image can be pulled from the registry 10.5.0.1:5000: nothing listens there",
       true,
       R"(nodes: [{address: a, facts: {mirrored: ['*']}, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}], logs: [{id: cri, lines: ['level=info msg="trying next host" error="Head \"http://10.5.0.1:5000/v2/kubelet/manifests/v1?ns=r.example\": connect: connection refused" host="10.5.0.1:5000"']}]}])",
       R"(nodes: [{address: a, facts: {mirrored: ['*']}, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}], logs: [{id: cri, lines: ['level=info msg="trying next host" error="Head https://r.example/v2/kubelet/manifests/v1: no such host" host=r.example']}]}])"},
      {"image-kubelet", "no mirror has it, and the registry itself cannot be reached", true,
       R"(nodes: [{address: a, facts: {mirrored: [r.example]}, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}]}])",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      {"resolver", "a name is not known", false,
       R"(nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}]}])",
       R"(nodes: [{address: a, facts: {mirrored: [r.example]}, services: [{id: kubelet, state: preparing, events: [{message: 'cannot pull "r.example/kubelet:v1": Head "https://r.example/v2/kubelet/manifests/v1": lookup r.example: no such host'}]}]}])"},
      {"registry",
       "no image can be pulled from the registry docker.io: its name cannot be resolved", true,
       R"({survey: {pods: [{namespace: default, name: web, phase: Pending, reason: ErrImagePull}]}, nodes: [{address: a, logs: [{id: kubelet, lines: ['"Error syncing pod" err="failed to \"StartContainer\" for \"web\" with ErrImagePull: \"failed to pull and unpack image \\\"docker.io/web:v9\\\": lookup docker.io: i/o timeout\"" pod="default/web"']}]}]})",
       // The pod was deleted.
       R"({survey: {pods: []}, nodes: [{address: a, logs: [{id: kubelet, lines: ['"Error syncing pod" err="failed to \"StartContainer\" for \"web\" with ErrImagePull: \"failed to pull and unpack image \\\"docker.io/web:v9\\\": lookup docker.io: i/o timeout\"" pod="default/web"']}]}]})"},
      {"image-kubelet", "the registry has no such image", true,
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"registry.k8s.io/kubelet:v9\": the registry has no such image; check the name and the "
       "tag'}]}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      {"image-etcd", "e:v9", true,
       "nodes: [{address: a, services: [{id: etcd, state: preparing, events: [{message: 'cannot "
       "pull "
       "\"e:v9\": the registry has no such image'}]}]}]",
       "nodes: [{address: a, services: [{id: etcd, state: running}]}]"},
      {"etcd-bootstrap", "etcd has not been bootstrapped", true,
       "nodes: [{address: a, controlPlane: true, pastRead: true, etcd: {phase: waiting, message: "
       "'waiting for a "
       "cluster: "
       "run talosctl bootstrap on one control-plane node, unless that was done'}}]",
       "nodes: [{address: a, controlPlane: true, etcd: {phase: member}, members: [{name: a}]}]"},
      {"etcd-bootstrap", "unless on a node that does not answer", false,
       "nodes: [{address: a, controlPlane: true, etcd: {phase: waiting, message: 'waiting for a "
       "cluster'}}, {address: b, reach: silent, error: no answer}]",
       "nodes: [{address: a, controlPlane: true, etcd: {phase: bootstrapping}}]"},
      {"etcd-certificate", "has expired", true,
       "nodes: [{address: a, controlPlane: true, members: [{name: m-1}, {name: m-2, peerUrls: "
       "['https://10.5.0.3:2380'], problem: 'etcd at 10.5.0.3:2379: certificate has expired'}]}]",
       "nodes: [{address: a, controlPlane: true, members: [{name: m-1}]}]"},
      {"etcd-member", "the member m-2 of etcd does not answer", true,
       "nodes: [{address: a, controlPlane: true, quorum: true, members: [{name: m-1}, {name: m-2, "
       "peerUrls: ['https://10.5.0.3:2380'], problem: 'etcd at 10.5.0.3:2379: Connection "
       "refused'}]}]",
       "nodes: [{address: a, controlPlane: true, quorum: true, members: [{name: m-1}, {name: "
       "m-2}]}]"},
      // Without a failing member the quorum may only be reported late.
      {"etcd-quorum", "no answer from 1 of 2 members", true,
       "nodes: [{address: a, controlPlane: true, quorum: false, members: [{name: m-1}, {name: m-2, "
       "problem: x}]}]",
       "nodes: [{address: a, controlPlane: true, quorum: false, members: [{name: m-1}, {name: "
       "m-2}]}]"},
      {"etcd-quorum", "no answer from 2 of 3 members: m-2 10.5.0.3, m-3 10.5.0.4", true,
       "nodes: [{address: a, controlPlane: true, quorum: false, members: [{name: m-1}, {name: m-2, "
       "peerUrls: ['https://10.5.0.3:2380'], problem: x}, {name: m-3, peerUrls: "
       "['https://10.5.0.4:2380'], "
       "problem: y}]}]",
       "nodes: [{address: a, controlPlane: true, quorum: true, members: [{name: m-1}, {name: m-2}, "
       "{name: "
       "m-3, problem: y}]}]"},
      {"etcd-alarm", "m-1: NOSPACE", true,
       "nodes: [{address: a, controlPlane: true, etcd: {phase: member, alarms: ['m-1: NOSPACE']}}]",
       "nodes: [{address: a, controlPlane: true, etcd: {phase: member}}]"},
      {"etcd-join", "has the name m-1 too", true,
       "nodes: [{address: a, controlPlane: true, etcd: {phase: waiting, message: 'cannot join yet: "
       "another "
       "member, 3 with https://10.0.0.3:2380, has the name m-1 too; set machine.network.hostname "
       "of one of them'}}]",
       "nodes: [{address: a, controlPlane: true, etcd: {phase: member}}]"},
      // A line from before etcd's newest start.
      {"etcd", "etcd does not run, or is not healthy", false,
       "nodes: [{address: a, services: [{id: etcd, state: running, checked: true, health: "
       "{unknown: false, healthy: false, lastMessage: Connection refused}}], logs: [{id: etcd, "
       "lines: ['flag provided but "
       "not defined: -bogus']}]}]",
       "nodes: [{address: a, services: [{id: etcd, state: running}]}]"},
      {"etcd", "an argument of cluster.etcd.extraArgs is wrong", true,
       "nodes: [{address: a, services: [{id: etcd, state: waiting, events: [{message: Process (PID "
       "82) "
       "exited with status 2}]}], logs: [{id: etcd, lines: ['flag provided but not defined: "
       "-quota-backend-bites']}]}]",
       "nodes: [{address: a, services: [{id: etcd, state: running}], logs: [{id: etcd, lines: "
       "['flag "
       "provided but not defined: -quota-backend-bites']}]}]"},
  };
}

TEST(Checks, FindWhatIsWrongWithANode) {
  checkCases(cases());
}

TEST(Checks, FindWhatIsWrongWithKubernetes) {
  checkCases(kubernetesCases());
}

// Catches: a firewall whose state is unknown and that counts as checked; a node whose addresses are
// not checked because it did not answer about its firewall, or the reverse.
TEST(Checks, AFirewallIsAQuestionByItself) {
  auto notChecked = [](const char* question) {
    return Diagnosed(kj::str("{survey: {server: x}, nodes: [{address: a, unanswered: [{question: ",
                             question, ", error: no answer}]}]}"))
        .text();
  };
  EXPECT_THAT(notChecked("firewall"), testing::HasSubstr("not checked on a: firewall (no answer)"));
  EXPECT_THAT(notChecked("addresses"),
              testing::AllOf(testing::HasSubstr("not checked on a: network-plan, "),
                             testing::Not(testing::HasSubstr("firewall"))));
}

// Catches: a check without a case, a cause that is not a check or comes later.
TEST(Checks, HaveACaseEachAndNameEarlierOnes) {
  std::set<std::string> tried, earlier;
  for (auto& one : cases()) tried.insert(one.check);
  for (auto& one : kubernetesCases()) tried.insert(one.check);
  for (auto& check : allChecks()) {
    EXPECT_EQ(tried.count(check.name.cStr()), 1u) << check.name.cStr();
    for (auto name : check.because) {
      std::string bare = name.startsWith("*") ? name.slice(1).cStr() : name.cStr();
      EXPECT_EQ(earlier.count(bare), 1u) << check.name.cStr() << " because of " << bare;
    }
    EXPECT_TRUE(earlier.insert(check.name.cStr()).second) << check.name.cStr();
  }
}

}  // namespace
}  // namespace talos::talosctl
