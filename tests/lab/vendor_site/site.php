<?php
// A site that writes a row for each visit. It takes its database from the variables of whichever product it stands for:
// one URL, or a host with or without a port, a user, a password and a name. `php site.php work` is its queue.

function setting(string ...$names): string {
    foreach ($names as $name) {
        $file = getenv("{$name}_FILE");
        if ($file !== false) return trim(file_get_contents($file));
        if (getenv($name) !== false) return getenv($name);
    }
    return '';
}

function account(): array {
    $url = preg_replace('/^jdbc:/', '', setting('DATABASE_URL', 'KC_DB_URL'));
    $found = $url ? parse_url($url) : [];
    [$host, $port] = explode(':', setting('DB_HOST', 'MYSQL_HOST', 'MATOMO_DATABASE_HOST', 'GITEA__database__HOST') . ':');
    return [
        'host' => $found['host'] ?? $host,
        'port' => $found['port'] ?? ($port ?: 3306),
        'name' => trim($found['path'] ?? setting('DB_DATABASE', 'MYSQL_DATABASE', 'MATOMO_DATABASE_DBNAME', 'GITEA__database__NAME'), '/'),
        'user' => $found['user'] ?? setting('DB_USERNAME', 'MYSQL_USER', 'MATOMO_DATABASE_USERNAME', 'GITEA__database__USER', 'KC_DB_USERNAME'),
        'password' => rawurldecode($found['pass'] ?? setting('DB_PASSWORD', 'MYSQL_PASSWORD', 'MATOMO_DATABASE_PASSWORD', 'GITEA__database__PASSWD', 'KC_DB_PASSWORD')),
    ];
}

function database(): PDO {
    ['host' => $host, 'port' => $port, 'name' => $name, 'user' => $user, 'password' => $password] = account();
    $options = [PDO::ATTR_PERSISTENT => true, PDO::ATTR_TIMEOUT => 2];
    $found = new PDO("mysql:host=$host;port=$port;dbname=$name", $user, $password, $options);
    $found->exec('CREATE TABLE IF NOT EXISTS visits (id BIGINT AUTO_INCREMENT PRIMARY KEY, seen BOOL NOT NULL DEFAULT 0)');
    return $found;
}

if (PHP_SAPI === 'cli') {
    while (true) {
        try {
            database()->exec('UPDATE visits SET seen = 1 WHERE seen = 0 LIMIT 10');
        } catch (PDOException $error) {
            echo $error->getMessage(), "\n";
        }
        usleep(300_000);
    }
}
try {
    $database = database();
    if ($_SERVER['REQUEST_METHOD'] === 'POST') $database->exec('INSERT INTO visits () VALUES ()');
    echo $database->query('SELECT COUNT(*) FROM visits')->fetchColumn(), "\n";
} catch (PDOException $error) {
    http_response_code(503);
    echo $error->getMessage(), "\n";
}
