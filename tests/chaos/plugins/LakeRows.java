package tests;

import java.io.IOException;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;

/** Prints the field {@code n} of each row of the table of clicks. */
public final class LakeRows {
    private LakeRows() { }

    public static void main(String[] arguments) throws IOException {
        var catalog = CatalogUtil.buildIcebergCatalog("iceberg", Map.of(
                "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri", arguments[0],
                "jdbc.user", arguments[1],
                "jdbc.password", arguments[2],
                "warehouse", arguments[3]), new Configuration());
        Table table = catalog.loadTable(TableIdentifier.of("web", "clicks"));
        try (CloseableIterable<Record> rows = IcebergGenerics.read(table).build()) {
            for (Record row : rows) {
                System.out.println(row.getField("n"));
            }
        }
    }
}
