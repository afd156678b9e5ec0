// A CSI driver on a node in a container: the kubelet's part of CSI for real, with a driver of these
// tests (rootfs/kubernetes/go/csi-driver) in the pod that drivers come in.
#include <gmock/gmock.h>

#include <regex>

#include "tests/kubernetes/storage.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

constexpr double kMounted = 120, kUnmounted = 60, kNodeIsBack = 180;  // seconds
constexpr const char* kSize = "16777216";                             // of the inline volume

// A driver with the mounts of vendors' drivers: its own socket, the kubelet's folder of
// registrations, and the two folders in which the kubelet wants mounts, which have to be the
// node's.
constexpr const char* kDriver = R"(apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: folders.csi.test}
spec:
  attachRequired: false
  podInfoOnMount: true
  fsGroupPolicy: File
  volumeLifecycleModes: [Persistent, Ephemeral]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-driver, namespace: kube-system}
spec:
  selector: {matchLabels: {app: csi-driver}}
  template:
    metadata: {labels: {app: csi-driver}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 10
      containers:
      - name: driver
        image: csi-driver:1
        args:
        - folders.csi.test
        - /csi/csi.sock
        - /var/lib/kubelet/plugins/folders.csi.test/csi.sock
        - /registration/folders.csi.test-reg.sock
        - /volumes
        securityContext: {privileged: true}
        volumeMounts:
        - {name: socket, mountPath: /csi}
        - {name: registration, mountPath: /registration}
        - {name: pods, mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional}
        - {name: plugins, mountPath: /var/lib/kubelet/plugins, mountPropagation: Bidirectional}
        - {name: dev, mountPath: /dev}
        - {name: volumes, mountPath: /volumes}
      volumes:
      - name: socket
        hostPath: {path: /var/lib/kubelet/plugins/folders.csi.test, type: DirectoryOrCreate}
      - name: registration
        hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}
      - {name: pods, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}
      - {name: plugins, hostPath: {path: /var/lib/kubelet/plugins, type: Directory}}
      - {name: dev, hostPath: {path: /dev, type: Directory}}
      - {name: volumes, hostPath: {path: /var/lib/csi-volumes, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: folder}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  csi: {driver: folders.csi.test, volumeHandle: first-folder}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: folder}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: folder
  resources: {requests: {storage: 1Gi}}
)";

const std::string kClaimed = "persistentVolumeClaim: {claimName: folder}";
const std::string kOfThePod =
    std::string("csi: {driver: folders.csi.test, volumeAttributes: {size: \"") + kSize + "\"}}";

class Csi : public Storage {
 protected:
  KubeNode& node() { return worker(1); }
  std::string driverPod() {
    return cluster
        ->kubectl({"get", "pods", "-n", "kube-system", "-l", "app=csi-driver", "--field-selector",
                   "spec.nodeName=" + node().name + ",status.phase=Running", "-o",
                   "jsonpath={.items[*].metadata.name}"})
        .out;
  }
  std::string driverLog() {
    return cluster->kubectl({"logs", "-n", "kube-system", driverPod()}).out;
  }
  bool isRegistered() {
    return contains(cluster->kubectl({"get", "csinode", node().name, "-o", "yaml"}).out,
                    "folders.csi.test");
  }
  bool driverLogged(const std::string& line, double deadline = kMounted) {
    return eventually([&] { return contains(driverLog(), line); }, deadline, 1);
  }
  // The mounts of the node that the kubelet wanted of a driver: where it is staged, and of pods.
  std::vector<std::string> csiMounts() {
    std::vector<std::string> found;
    auto all = mounts(node());
    std::regex wanted(
        "^[^ ]+ /var/lib/kubelet/(pods/[^ ]+/volumes|plugins/)"
        "[^ ]*kubernetes.io[^ ]*csi[^ ]* [^ ]+",
        std::regex::multiline);
    for (std::sregex_iterator at(all.begin(), all.end(), wanted), end; at != end; ++at) {
      found.push_back(at->str());
    }
    return found;
  }
  bool inPod(const std::string& name, const std::string& command, const std::string& expected) {
    harness::Result result;
    bool good = eventually(
        [&] {
          result = cluster->kubectl({"exec", name, "--", "sh", "-c", command});
          return result.status == 0 && result.out == expected;
        },
        kMounted, 1);
    if (!good) fprintf(stderr, "%s: %s%s", name.c_str(), result.out.c_str(), result.err.c_str());
    return good;
  }
  void remove(const std::string& name) {
    cluster->ok({"delete", "pod", name, "--timeout=120s"}, 150);
  }
  // Restarts the driver and waits until the kubelet has registered the new pod's socket.
  void restartDriver() {
    auto before = driverPod();
    cluster->ok({"delete", "pod", "-n", "kube-system", before, "--timeout=60s"}, 90);
    ASSERT_TRUE(eventually(
        [&] {
          auto now = driverPod();
          return !now.empty() && !contains(now, before) && contains(driverLog(), "registered");
        },
        kMounted, 1))
        << cluster->overview();
  }
};

}  // namespace

// Catches: a kubelet that does not see the socket of a driver in its folder, or whose folders are
// not the node's; mounts of the driver's pod that neither the kubelet nor other pods see, that end
// with the driver's pod, or that the next pod cannot unmount; a volume that a reboot loses, or that
// is not mounted after it; mounts or folders that stay after a pod.
TEST_F(Csi, VolumesOfADriverInAPod) {
  createContainers(1);
  if (HasFailure()) return;
  cluster->apply(kDriver);
  ASSERT_TRUE(driverLogged("registered")) << cluster->overview() << driverLog();
  EXPECT_TRUE(eventually([&] { return isRegistered(); }, kMounted, 1));
  EXPECT_THAT(csiMounts(), testing::IsEmpty());

  cluster->apply(pod("claims", node(), "echo written >>/data/file; sleep 100000", kClaimed));
  cluster->apply(pod("owns", node(), "echo written >>/data/file; sleep 100000", kOfThePod));
  ASSERT_TRUE(inPod("claims", "cat /data/file", "written\n"))
      << mountFailures() << driverLog() << cluster->overview();
  ASSERT_TRUE(inPod("owns", "cat /data/file", "written\n")) << mountFailures() << driverLog();
  // Staged, and published to each pod: the node's own mounts.
  EXPECT_THAT(csiMounts(), testing::SizeIs(3)) << mounts(node());
  EXPECT_THAT(csiMounts(), testing::Contains(testing::ContainsRegex("^tmpfs .*/mount tmpfs")));
  EXPECT_TRUE(inPod("owns", "grep -c \" /data tmpfs .*size=16384k\" /proc/mounts", "1\n"));
  EXPECT_EQ(cluster->talos
                .talosctl(cluster->at(node(), {"read", "/var/lib/csi-volumes/first-folder/file"}))
                .out,
            "written\n");
  // The kubelet gets the volumes' sizes from the driver: no folder of the node has so few bytes.
  auto figures = [&] {
    return contains(
        cluster->kubectl({"get", "--raw", "/api/v1/nodes/" + node().name + "/proxy/stats/summary"})
            .out,
        std::string("\"capacityBytes\": ") + kSize);
  };
  EXPECT_TRUE(eventually(figures, kMounted, 1));

  // Pods keep their volumes while the driver is replaced; the new one unmounts for the old one.
  ASSERT_NO_FATAL_FAILURE(restartDriver());
  EXPECT_TRUE(inPod("claims", "echo more >>/data/file; cat /data/file", "written\nmore\n"));
  EXPECT_THAT(csiMounts(), testing::SizeIs(3));
  EXPECT_THAT(driverLog(), Not(HasSubstr("NodePublishVolume")));
  remove("owns");
  EXPECT_TRUE(eventually([&] { return csiMounts().size() == 2; }, kUnmounted, 1))
      << mounts(node()) << driverLog();
  EXPECT_TRUE(driverLogged("NodeUnpublishVolume: ok", kUnmounted)) << driverLog();

  // The kubelet ends the pod for good while the node shuts down; another pod gets its volume.
  auto before = cluster->bootId(node());
  auto reboot = cluster->talos.talosctl(cluster->at(node(), {"reboot"}), kNodeIsBack);
  EXPECT_EQ(reboot.status, 0) << reboot.err;
  EXPECT_NE(cluster->bootId(node()), before);
  remove("claims");
  cluster->apply(pod("later", node(), "sleep 100000", kClaimed));
  ASSERT_TRUE(inPod("later", "cat /data/file", "written\nmore\n"))
      << mountFailures() << driverLog() << cluster->overview();
  EXPECT_THAT(csiMounts(), testing::SizeIs(2)) << mounts(node());
  EXPECT_TRUE(driverLogged("NodePublishVolume: ok", kUnmounted)) << driverLog();

  // Only the data to be kept remains.
  remove("later");
  EXPECT_TRUE(eventually([&] { return csiMounts().empty(); }, kUnmounted, 1))
      << mounts(node()) << driverLog();
  EXPECT_TRUE(driverLogged("NodeUnstageVolume: ok", kUnmounted)) << driverLog();

  cluster->apply(pod("refused", node(), "sleep 100000",
                     "csi: {driver: folders.csi.test, volumeAttributes: {size: \"1,uid=0\"}}"));
  std::string events;
  EXPECT_TRUE(mountFailsWith("refused", "is no size", events)) << events;
}

}  // namespace talos
