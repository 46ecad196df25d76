package esfixture;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.core.TimeValue;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * Runs one Elasticsearch node in this JVM, for the tests of the job side.
 *
 * <p>Usage: Main HOME TTL_SECONDS. HOME has config/elasticsearch.yml and modules/. When the node
 * answers, its URL is written to HOME/url. The process ends on SIGTERM, after TTL_SECONDS, or when
 * the process ES_OWNER_PID (if set) has ended: tests that are killed leave no server behind.
 */
public final class Main {
    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]).toAbsolutePath();
        long ttl = Long.parseLong(args[1]);

        String password = System.getenv("ES_PASSWORD");
        if (password != null && password.isEmpty() == false) {
            writeUser(home.resolve("config"), "admin", password);
        }

        LogConfigurator.registerErrorListener();
        Environment env = InternalSettingsPreparer.prepareEnvironment(
            Settings.builder().put("path.home", home).build(), Map.of(), home.resolve("config"), () -> "fixture");
        LogConfigurator.setNodeName("fixture");
        LogConfigurator.configure(env, true);

        // All jars are on the class path (no Java modules), hence no server exports.
        PluginsLoader plugins = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(home.resolve("modules")),
            PluginsLoader.loadPluginsBundles(home.resolve("plugins")), Map.of(), false);

        Node node = new Node(env, plugins);
        CountDownLatch stop = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.countDown();
            try {
                node.prepareForClose();
                node.close();
                node.awaitClose(20, TimeUnit.SECONDS);
            } catch (Exception e) {
                e.printStackTrace();
            }
        }, "fixture-shutdown"));

        node.start();
        // Yellow, not green: on a data folder that is used again, an index may want replicas.
        node.client().admin().cluster().prepareHealth(TimeValue.timeValueSeconds(30))
            .setWaitForYellowStatus().get(TimeValue.timeValueSeconds(60));
        String url = "http://" + node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress();
        Path tmp = home.resolve("url.tmp");
        Files.writeString(tmp, url + "\n");
        Files.move(tmp, home.resolve("url"), StandardCopyOption.ATOMIC_MOVE);

        String owner = System.getenv("ES_OWNER_PID");
        if (owner != null && owner.isEmpty() == false) {
            ProcessHandle.of(Long.parseLong(owner)).ifPresentOrElse(
                process -> process.onExit().thenRun(stop::countDown), stop::countDown);
        }
        if (!stop.await(ttl, TimeUnit.SECONDS)) {
            System.err.println("fixture: lived for " + ttl + " s, stopping");
        }
        System.exit(0);
    }

    /** A user of the file realm with all rights, for the mode with security. */
    private static void writeUser(Path config, String user, String password) throws Exception {
        byte[] salt = new byte[32];
        new SecureRandom().nextBytes(salt);
        byte[] hash = SecretKeyFactory.getInstance("PBKDF2withHMACSHA512")
            .generateSecret(new PBEKeySpec(password.toCharArray(), salt, 1000, 256)).getEncoded();
        Base64.Encoder b64 = Base64.getEncoder();
        Files.writeString(config.resolve("users"),
            user + ":{PBKDF2}1000$" + b64.encodeToString(salt) + "$" + b64.encodeToString(hash) + "\n");
        Files.writeString(config.resolve("users_roles"), "superuser:" + user + "\n");
    }
}
